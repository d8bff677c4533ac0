// Memory that a kernel keeps from step to step: the allocator gives large blocks back to the
// system, and mapping them again costs several times what is done with them.
#ifndef TFCOMPRESS_TF_SCRATCH_H_
#define TFCOMPRESS_TF_SCRATCH_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tfcompress {

// Objects that steps use one after the other. Thread-safe: steps that run at the same time have one
// each.
template <typename T>
class Scratch {
 public:
  // Owns an object, and hands it back at its end.
  class Lease {
   public:
    Lease(Scratch* owner, std::unique_ptr<T> object) : owner_(owner), object_(std::move(object)) {}
    ~Lease() { owner_->Put(std::move(object_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

    T* get() const { return object_.get(); }
    T& operator*() const { return *object_; }
    T* operator->() const { return object_.get(); }

   private:
    Scratch* owner_;
    std::unique_ptr<T> object_;
  };

  // The object, with what a step before left in it, or a new one.
  Lease Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) return Lease(this, std::make_unique<T>());
    std::unique_ptr<T> object = std::move(idle_.back());
    idle_.pop_back();
    return Lease(this, std::move(object));
  }

 private:
  void Put(std::unique_ptr<T> object) {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back(std::move(object));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> idle_;
};

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SCRATCH_H_
