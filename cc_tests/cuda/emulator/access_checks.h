// Checks of the accesses that kernels make, where access_hooks.cc is linked and the sources are
// compiled to call it; elsewhere these functions do nothing. An error is
// - a read of bytes, of device memory or of a block's shared memory, that nothing has written;
// - a race: two threads access the same byte, one of them writes, not both by atomics (or a
//   volatile read), and nothing orders them. What orders threads of a block is __syncthreads, those
//   of a warp __syncwarp, too. A thread that executes __threadfence and then an atomic operation on
//   a word of device memory is behind all of another block that did the same before; so is its
//   block after the next barrier.
// Blocks and threads may run in any order here: an error is found whether it changes a result or
// not, as long as the compiler left the accesses and they are executed. Of several reads of a byte,
// only the last and whether there were others are known, and of several atomics the last.
#ifndef TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_ACCESS_CHECKS_H_
#define TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_ACCESS_CHECKS_H_

#include <cstddef>
#include <cstdint>

namespace emulator {

// Whether accesses are checked: access_hooks.cc is linked.
extern bool checks_accesses;

// What the calling thread of the host does.
enum class Running { kNothing, kOperation, kKernel };  // Of a stream.
extern thread_local Running running;

// A volatile read may meet atomic operations.
enum class Access { kRead, kVolatileRead, kWrite, kAtomic };

// Where the state of device memory changes. It is not written at first.
void NoteAllocation(const void* begin, size_t num_bytes);
void NoteFree(const void* begin);
void NoteWritten(const void* begin, size_t num_bytes);
void NoteCopied(const void* to, const void* from, size_t num_bytes);

// What orders the accesses of a launch. The threads of a block run one at a time, those of one
// block after those of another.
void BeginLaunch();
void BeginBlock(unsigned block, unsigned num_warps);
void NoteBarrier();
void NoteWarpBarrier(unsigned warp);
void NoteFence();

// Checks an access by the running thread of a kernel, or by another operation of a stream, from the
// code at `where`.
void CheckAccess(const void* address, size_t num_bytes, Access access, const void* where);

// Whether an error was found since the last call.
bool TakeAccessErrors();

}  // namespace emulator

#endif  // TFCOMPRESS_CC_TESTS_CUDA_EMULATOR_ACCESS_CHECKS_H_
