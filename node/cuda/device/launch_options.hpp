#pragma once
// How the unit of a device launches work.

namespace yamata::cuda {

struct LaunchOptions {
  bool graphs = true;         ///< launch several operations as one graph
  bool stream_waits = false;  ///< the stream itself waits at barriers; the next launches are already in it

  /// From the words of YAMATA_DEVICE: "graphs=off", "waits=stream" (the defaults are "on" and "host"). Throws UsageError for others.
  static LaunchOptions from_environment();
};

}  // namespace yamata::cuda
