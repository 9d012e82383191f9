#pragma once
// How a device's unit gives the device its work.

namespace yamata::cuda {

struct LaunchOptions {
  bool graphs = true;         ///< the launches of some operations as one graph
  bool stream_waits = false;  ///< the stream waits at meetings by itself, with what comes after them in it already

  /// As YAMATA_DEVICE has it, in words: "graphs=off", "waits=stream" ("on" and "host" are the defaults). Throws UsageError for any other.
  static LaunchOptions from_environment();
};

}  // namespace yamata::cuda
