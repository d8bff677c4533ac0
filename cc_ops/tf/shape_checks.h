// What the shape functions of several ops share.
#ifndef TFCOMPRESS_TF_SHAPE_CHECKS_H_
#define TFCOMPRESS_TF_SHAPE_CHECKS_H_

#include <initializer_list>
#include <vector>

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfcompress {

// Fails with InvalidArgument unless these inputs are scalars.
inline absl::Status CheckScalars(tensorflow::shape_inference::InferenceContext* c,
                                 std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::vector<tensorflow::shape_inference::ShapeHandle> input;
    TF_RETURN_IF_ERROR(c->input(name, &input));
    tensorflow::shape_inference::ShapeHandle unused;
    TF_RETURN_IF_ERROR(c->WithRank(input[0], 0, &unused));
  }
  return absl::OkStatus();
}

// Sets `vector` to the shape of an input. Fails with InvalidArgument unless that is a vector.
inline absl::Status CheckVector(tensorflow::shape_inference::InferenceContext* c, const char* name,
                                tensorflow::shape_inference::ShapeHandle* vector) {
  std::vector<tensorflow::shape_inference::ShapeHandle> input;
  TF_RETURN_IF_ERROR(c->input(name, &input));
  return c->WithRank(input[0], 1, vector);
}

// Gives the outputs "new_slots" the shapes of the inputs "slots".
inline absl::Status SetShapesOfNewSlots(tensorflow::shape_inference::InferenceContext* c) {
  std::vector<tensorflow::shape_inference::ShapeHandle> slots;
  TF_RETURN_IF_ERROR(c->input("slots", &slots));
  return c->set_output("new_slots", slots);
}

// Sets num_bytes, nanoseconds and finite, the outputs from `first` on, to vectors.
inline void SetStatsShapes(tensorflow::shape_inference::InferenceContext* c, int first,
                           int num_tensors) {
  for (int i = first; i < first + 3; ++i) c->set_output(i, c->Vector(num_tensors));
}

}  // namespace tfcompress

#endif  // TFCOMPRESS_TF_SHAPE_CHECKS_H_
