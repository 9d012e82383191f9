#pragma once
// Tells a rank through the launcher that the job continues without it: the head may not reach the rank itself.

namespace yamata {

/// Tells the launcher that the job continues without this rank. Returns at once: a suspended launcher would not answer. Does nothing under
/// a launcher that keeps no such data.
void announce_left_out(int rank);
/// Whether the launcher was told so. Waits for its answer.
bool is_announced_left_out(int rank);

}  // namespace yamata
