# Toolchain for DEB_HOST_ARCH, as Debian's cross compilers and multiarch libraries have it. launch/packages/cross-deb uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR $ENV{DEB_HOST_GNU_CPU})
set(CMAKE_LIBRARY_ARCHITECTURE $ENV{DEB_HOST_MULTIARCH})
set(CMAKE_CXX_COMPILER $ENV{DEB_HOST_GNU_TYPE}-g++)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/$ENV{DEB_HOST_MULTIARCH}/pkgconfig:/usr/share/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-$ENV{DEB_HOST_GNU_CPU})
