// Names the TensorFlow that the library was built for, for those who read its bytes: another one
// may not load it.
namespace tfcompress {

extern const char kBuiltFor[];
__attribute__((used)) const char kBuiltFor[] =
    "tfcompress ops built for TensorFlow " TFC_TF_VERSION;

}  // namespace tfcompress
