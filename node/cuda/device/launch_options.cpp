#include "node/cuda/device/launch_options.hpp"

#include <cstdlib>
#include <sstream>
#include <string>

#include "node/error.hpp"

namespace yamata::cuda {

LaunchOptions LaunchOptions::from_environment() {
  LaunchOptions options;
  const char* words = std::getenv("YAMATA_DEVICE");
  std::istringstream stream(words ? words : "");
  for (std::string word; stream >> word;) {
    if (word == "graphs=on" || word == "graphs=off") {
      options.graphs = word == "graphs=on";
    } else if (word == "waits=stream" || word == "waits=host") {
      options.stream_waits = word == "waits=stream";
    } else {
      throw UsageError("YAMATA_DEVICE=" + word + ": unknown; it takes graphs=on or off, and waits=host or stream");
    }
  }
  return options;
}

}  // namespace yamata::cuda
