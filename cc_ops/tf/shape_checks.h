// Checks that the shape functions of several ops share.
#ifndef TFCOMPRESS_TF_SHAPE_CHECKS_H_
#define TFCOMPRESS_TF_SHAPE_CHECKS_H_

#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfcompress {

inline absl::Status CheckScalar(tensorflow::shape_inference::InferenceContext* c,
                                const char* name) {
  std::vector<tensorflow::shape_inference::ShapeHandle> input;
  TF_RETURN_IF_ERROR(c->input(name, &input));
  tensorflow::shape_inference::ShapeHandle unused;
  return c->WithRank(input[0], 0, &unused);
}

// Gives the outputs "new_slots" the shapes of the inputs "slots".
inline absl::Status SetShapesOfNewSlots(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::shape_inference::ShapeHandle> slots;
  TF_RETURN_IF_ERROR(c->input("slots", &slots));
  return c->set_output("new_slots", slots);
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SHAPE_CHECKS_H_
