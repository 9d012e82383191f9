# Called by cpack between installing the files and packing them: what Debian wants in other places or forms than `cmake --install` has it.
set(share ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share)
set(doc ${share}/doc/yamata)

# copyright instead of LICENSE
file(READ ${doc}/LICENSE license)
string(REGEX MATCH "Copyright \\(c\\) ([^\n]*)\n\n(.*)" found "${license}")
set(owner "${CMAKE_MATCH_1}")
string(REGEX REPLACE "\n\n" "\n.\n" terms "${CMAKE_MATCH_2}")
string(REGEX REPLACE "\n([^\n])" "\n \\1" terms "${terms}")
file(WRITE ${doc}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: yamata

Files: *
Copyright: ${owner}
License: Expat
 ${terms}")
file(REMOVE ${doc}/LICENSE)

# changelog.gz and changelog.Debian.gz
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
file(WRITE ${doc}/changelog.Debian "yamata (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) stable; urgency=medium

  * What has changed is in changelog.gz.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")

file(RENAME ${share}/zsh/site-functions ${share}/zsh/vendor-completions)  # where Debian's zsh looks
file(GLOB pages ${share}/man/man1/*)
execute_process(COMMAND gzip -9n ${pages} ${doc}/changelog ${doc}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
