// The arithmetic of the back-end: rows and packed weights in, rows out. One table of functions per instruction set.
//
// The bit contract. Every number that leaves a kernel is a function of its own row (its own query, its own key) and of
// the weights, computed in one fixed order of IEEE operations. That order is spelled here in terms of 16 virtual lanes
// and is the same in every variant:
//   - a product of a row and a matrix: inputs in order, blocks of 32 (int8: exact integer sums; fp32: fused
//     multiply-adds from zero), blocks added from left to right. A lane is an output channel, so that no sum is ever
//     split over lanes, threads or rows;
//   - attention: a score is one chain of fused multiply-adds over the head's dimensions, lanes are keys; a weighted sum
//     of values is one chain per block of 64 positions, blocks added from left to right, lanes are dimensions;
//   - sums over a row (norms, softmax): lane j takes the elements j, j + 16, ...; the lanes are added as a fixed tree;
//   - maxima, integer sums and roundings to nearest are exact in any order and may be done as each processor likes.
// So neither the instruction set, the number of rows or threads, nor the place of a row can change a bit.
#pragma once

#include <cstdint>

constexpr int kLanes = 16;         // output channels of a tile, and lanes of every vector
constexpr int kGroup = 32;         // inputs that share a scale
constexpr int kBlock = 64;         // positions of an attention block
constexpr int kTileGroup = kLanes * kGroup;  // weights of one tile and one group of inputs

// A weight matrix of `tiles` tiles of 16 output channels, `groups` groups of 32 inputs.
// int8: weights[tile][group][quad of inputs: 8][channel: 16][input of the quad: 4], scales (bfloat16)
// [tile][group][channel: 16]. fp32: floats[tile][input][channel: 16]. Exactly one of the two is there.
struct Matrix {
    int tiles = 0;
    int groups = 0;
    const int8_t* weights = nullptr;
    const uint16_t* scales = nullptr;
    const float* floats = nullptr;
};

// Rows that a matrix is multiplied with, `stride` inputs apart, one scale per group (int8) or plain (fp32).
// offsets[row][group] is -128 times the sum of the group's quants: what a dot product with weights + 128 has too much.
struct Rows {
    int stride = 0;
    int8_t* quants = nullptr;
    float* scales = nullptr;
    int32_t* offsets = nullptr;
    float* floats = nullptr;
};

struct Kernels {
    const char* name;

    // out[row][channel] of the tiles first .. first + count, channel 0 being the first tile's; rows `out_stride` apart.
    void (*product)(const Matrix&, int first, int count, const Rows&, int row, int rows, float* out, int out_stride);

    // Store `size` floats (a multiple of 32) as row `row` from input `start` on: quantised where Rows has quants, else
    // as they are. A group that holds a NaN or an infinity gets the scale NaN.
    void (*store)(const float* values, int size, Rows&, int row, int start);

    // out = values / rms(values) * weight over `padded` (a multiple of 16) floats, of which `size` count and the others
    // are zero. May work in place.
    void (*norm)(const float* values, const float* weight, float epsilon, int size, int padded, float* out);

    // gate = silu(gate) * up over 32 floats.
    void (*swiglu)(float* gate, const float* up);

    // scores[query][key] of 64 keys stored as keys[dimension][64].
    void (*scores)(const float* const* queries, int count, const float* keys, int dimensions, float* scores,
                   int stride);

    // Scores of `blocks` whole blocks -> weights exp(score - max), in place; the sum of the weights.
    float (*softmax)(float* scores, int blocks);

    // sums[query][dimension] += sum over `positions` <= 64 of weights[query][position] * values[position][dimension],
    // rows of `values` being `padded` apart (a multiple of 16).
    void (*mix)(const float* weights, int weight_stride, int count, const float* values, int positions, int padded,
                float* sums);

    // The same with the values of position i at values[i].
    void (*mix_gathered)(const float* weights, int weight_stride, int count, const float* const* values, int positions,
                         int padded, float* sums);
};

// Each is null where the compiler could not make it or the processor cannot run it.
const Kernels* generic_kernels();
const Kernels* avx2_kernels();
const Kernels* avxvnni_kernels();
const Kernels* avx512_kernels();
