#pragma once
// The metadata of recurrent layers.

namespace yamata {

struct Hyperparameters;
class MetadataReader;

// They throw ModelError if something is not supported or inconsistent.

/// Which layers have a gated delta rule, and the sizes of their states.
void read_states(const MetadataReader& reader, Hyperparameters& h);

/// Qwen3.5's layers with hyper-connections.
void read_qwen4exp(const MetadataReader& reader, Hyperparameters& h);

// Layers without key/value heads have a short convolution.
void read_lfm2(const MetadataReader& reader, Hyperparameters& h);
void read_lfm2moe(const MetadataReader& reader, Hyperparameters& h);

// Layers have a scan (Mamba-2) if they have no key/value heads; in Nemotron-H, also no feed-forward.
void read_granitehybrid(const MetadataReader& reader, Hyperparameters& h);
void read_nemotron_h(const MetadataReader& reader, Hyperparameters& h);

}  // namespace yamata
