# Toolchain of `make aarch64`: Debian's cross-compiler, its zlib of the other architecture, and qemu to run the tests.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR "qemu-aarch64;-L;/usr/aarch64-linux-gnu")
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
# Packages in the root of this machine are compiled for this machine: GoogleTest is built from its sources.
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
