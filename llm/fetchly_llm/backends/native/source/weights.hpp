// Tensors of a checkpoint in; the model's matrices, quantised and packed as the kernels read them, out.
#pragma once

#include <cstdint>
#include <vector>

#include "packing.hpp"

// What a model is. Everything is positive; hidden, inner and heads * dim are multiples of 32, dim is even.
struct Shape {
    int32_t vocab, hidden, inner, layers, heads, kv_heads, dim;
    int32_t qkv_bias, output_bias, qk_norm, tied;  // flags
    int32_t int8;                                  // flag: quantised, or fp32
    float epsilon;

    int padded() const { return (dim + kLanes - 1) / kLanes * kLanes; }  // a head in whole vectors, the rest zero
    int units() const { return heads + 2 * kv_heads; }                   // heads of queries, keys and values
    bool valid() const;
};

// Names of tensors. Those of a layer come with its number, the others with layer 0.
enum Part : int32_t {
    kEmbedding, kFinalNorm, kHead, kAttentionNorm, kQuery, kKey, kValue, kQueryBias, kKeyBias, kValueBias, kQueryNorm,
    kKeyNorm, kOutput, kOutputBias, kMlpNorm, kGate, kUp, kDown, kParts
};

// One decoder layer. The heads of queries, keys and values are stacked, `padded` channels each. Gate and up alternate,
// 32 channels each, so that what they make together lies together.
struct Layer {
    Matrix qkv, output, gate_up, down;
    float *attention_norm, *qkv_bias, *query_norm, *key_norm, *output_bias, *mlp_norm;
};

class Weights {
public:
    explicit Weights(const Shape& shape);

    // Copy the tensor (rows, columns) in; a vector has one column. False where the model has no such tensor or shape.
    bool load(Pool& pool, int layer, Part part, Type type, const void* data, int64_t rows, int64_t columns);
    // Whether every tensor has been loaded.
    bool complete() const;
    // The embedding of a token: `hidden` floats, read back from the packed matrix.
    void embed(int token, float* out) const;

    const Matrix& head() const { return shape_.tied ? embedding_ : head_; }
    const Layer& layer(int number) const { return layers_[size_t(number)]; }
    const float* final_norm() const { return final_norm_; }

private:
    Place place_of(int layer, Part part);

    Shape shape_;
    Arena arena_;
    Matrix embedding_, head_;
    float* final_norm_ = nullptr;
    std::vector<Layer> layers_;
    std::vector<char> loaded_;  // [layer][part]
};
