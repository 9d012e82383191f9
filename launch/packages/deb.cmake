# cpack -G DEB: the Debian package, from what `cmake --install` installs. launch/package calls it;
# debian_files.cmake adds what only Debian has.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME yamata)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON)  # so that man pages name /usr/share, not the folder in which the package is made
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/debian_files.cmake)

set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # models hardly shrink
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "The Yamata maintainers <maintainers@users.noreply.a-seed-afe7885b.example>")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "large language models across several machines, with MPI
Yamata runs one large language model (GGUF files) on several machines: each
computes some layers, or a share of every layer, and a drafter guesses the
next tokens while the pipeline computes. The text is the same on any number
of machines. A chat server with OpenAI's API and two small models to try are
included.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, python3 (>= 3.11)")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openssh-client, python3-uvicorn, python3-jinja2")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "iproute2, python3-matplotlib")
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE $ENV{DEB_HOST_ARCH})
endif()
include(CPack)
