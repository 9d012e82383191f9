#pragma once
// The metadata of layers with a gated delta rule.

namespace yamata {

struct Hyperparameters;
class MetadataReader;

/// Reads which layers have states, and their sizes. Throws ModelError if they are not supported or inconsistent.
void read_states(const MetadataReader& reader, Hyperparameters& h);

}  // namespace yamata
