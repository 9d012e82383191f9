#pragma once

namespace yamata {

/// The version of this program, such as 0.1.0. Its only place is project() in CMakeLists.txt.
const char* version();

/// The commit of git that it was built from, with "-dirty" if tracked files had changed; "unknown" if it was built outside git.
const char* commit();

}  // namespace yamata
