#pragma once
// The congestion control of TCP connections.
#include <string>

namespace yamata {

/// The name of the algorithm that this process's TCP connections use, such as "cubic"; empty if there are none to other machines.
std::string congestion_control();

/// The same for one socket; empty if it is no TCP socket.
std::string congestion_control_of(int fd);

}  // namespace yamata
