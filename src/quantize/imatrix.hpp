#pragma once
// Importance matrices: how much each column of each matrix matters, as llama-imatrix measures it.
#include <map>
#include <string>
#include <vector>

namespace yamata::quantize {

struct Imatrix {
  std::string path;                                  ///< as given
  std::map<std::string, std::vector<float>> values;  ///< tensor -> mean square of what its columns were multiplied with
  std::vector<std::string> datasets;                 ///< the texts on which it was measured
  int chunks = 0;                                    ///< of those texts; 0 if unknown

  /// Reads the GGUF format and the older .dat. Throws ModelError naming the file and what is wrong.
  static Imatrix open(const std::string& path);
};

}  // namespace yamata::quantize
