#include "cuda/driver.h"

#include <gtest/gtest.h>

#include <string>

namespace tfcompress {
namespace device {
namespace {

TEST(Driver, RunsItsMajorVersionAndOlderOnes) {
  EXPECT_TRUE(CheckVersions(13000, 13000).ok());
  EXPECT_TRUE(CheckVersions(13000, 13020).ok());
  EXPECT_TRUE(CheckVersions(13010, 12040).ok());
  EXPECT_TRUE(CheckVersions(12010, 12090).ok());
  EXPECT_TRUE(CheckVersions(12000, 12000).ok());
  EXPECT_TRUE(CheckDriver().ok());
}

TEST(Driver, ThatIsOlderIsRefusedWithWhatToDo) {
  const Status status = CheckVersions(12040, 13000);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      status.message(),
      "the NVIDIA driver supports CUDA 12.4 at most, and tfcompress was built with CUDA 13.0; "
      "install a newer driver, or build tfcompress with nvcc of CUDA 12.4");
  EXPECT_EQ(CheckVersions(12000, 12010).code(), StatusCode::kInvalidArgument);
  const auto ends_with = [](const Status& refused, const std::string& end) {
    const std::string& message = refused.message();
    return message.size() > end.size() &&
           message.compare(message.size() - end.size(), end.size(), end) == 0;
  };
  EXPECT_TRUE(ends_with(CheckVersions(11040, 13000), "with nvcc of CUDA 11.8"));
  EXPECT_TRUE(ends_with(CheckVersions(10020, 13000), "install a newer driver"));
  EXPECT_EQ(CheckVersions(0, 13000).message(), "there is no NVIDIA driver");
}

}  // namespace
}  // namespace device
}  // namespace tfcompress
