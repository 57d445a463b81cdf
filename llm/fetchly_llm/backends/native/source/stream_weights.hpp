// Tensors of a streams file in; the streams' matrices, packed as the kernels read them, out.
#pragma once

#include <cstdint>
#include <vector>

#include "layers.hpp"

constexpr int kMostRank = 1024;
constexpr int kMostFactors = 1 << 18;  // of the Markov head, for one stream

// Which parts the streams have, and how large: `StreamConfig` of stream_config.py says what they mean. A rank of 0: the
// part is not there. `taps` are layers, rising.
struct StreamShape {
    const int32_t* taps;
    int32_t tap_count;
    int32_t gamma, first_layer, insertion_rank, anchor_rank, adapter_rank, markov_rank, confidence, top;
    float adapter_scale;  // what adapters count

    const char* objection(const Shape& model) const;
};

// Names of tensors. The adapters' come with their layer, the others with layer 0.
enum StreamPart : int32_t {
    kStreamEmbedding, kInsertionDown, kInsertionUp, kAnchorDown, kAnchorUp, kMarkovPrevious, kMarkovNext, kMarkovGate,
    kConfidence, kConfidenceBias,
    kQueryDown, kKeyDown, kValueDown, kOutputDown, kGateDown, kUpDown, kDownDown,
    kQueryUp, kKeyUp, kValueUp, kOutputUp, kGateUp, kUpUp, kDownUp, kStreamParts
};

class StreamWeights {
public:
    StreamWeights(const Shape& model, const StreamShape& shape);

    // Copy the tensor (rows, columns) in. False where the streams have no such tensor or shape.
    bool load(Pool& pool, int layer, StreamPart part, Type type, const void* data, int64_t rows, int64_t columns);
    // What the numbers of a part are multiplied with.
    float scale_of(StreamPart part) const { return part >= kQueryUp ? shape_.adapter_scale : 1.0f; }
    bool complete() const;

    const LowRank& insertion() const { return insertion_; }
    const LowRank& anchor() const { return anchor_; }
    const Adapters* adapters(int layer) const {  // null where there are none
        return shape_.adapter_rank ? &adapters_[size_t(layer - shape_.first_layer)] : nullptr;
    }
    const Matrix& markov_previous() const { return previous_; }
    const Matrix& markov_next() const { return next_; }
    const Matrix& markov_gate() const { return gate_; }
    const float* embedding() const { return embedding_; }    // [stream][hidden]
    const float* confidence() const { return confidence_; }  // [hidden]
    float confidence_bias() const { return *confidence_bias_; }

private:
    Place place_of(int layer, StreamPart part);
    Place adapter_place(Adapters& adapters, StreamPart part);
    bool has(StreamPart part) const;

    Shape model_;
    StreamShape shape_;  // without its taps
    Arena arena_;
    LowRank insertion_, anchor_;
    Matrix previous_, next_, gate_;
    float *embedding_ = nullptr, *confidence_ = nullptr, *confidence_bias_ = nullptr;
    std::vector<Adapters> adapters_;
    std::vector<char> loaded_;  // [layer from first_layer on][part]
};
