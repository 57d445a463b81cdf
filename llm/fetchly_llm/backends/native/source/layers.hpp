// Rows of the residual stream in; the same rows after a decoder layer, and their logits, out.
#pragma once

#include "attention.hpp"
#include "pool.hpp"
#include "rows.hpp"
#include "weights.hpp"

constexpr int kMostRows = 128;  // of one pass

// A linear map up * down, added to that of a matrix (LoRA, arXiv 2106.09685). Where the matrix is several of them
// stacked, `down` stacks theirs, and each part of `up` reads its own share of what comes of it.
struct LowRank {
    Matrix down, up;
};
struct Adapters {  // of one layer
    LowRank qkv, output, gate_up, down;
    int rank;  // of each linear layer, in whole groups
};

// What all layers of a pass share.
struct Work {
    const Plan& plan;
    Places places;
    const float *cosine, *sine;  // [position][dim / 2]
};

class Layers {
public:
    Layers(const Shape& shape, const Kernels& kernels, Pool& pool);

    float* hidden(int row) { return hidden_.data() + int64_t(row) * shape_.hidden; }  // of the residual stream
    // Rows after `norm`: normed, and the same as inputs of products.
    const float* normed(int row) const { return normed_.data() + int64_t(row) * shape_.hidden; }
    const Rows& normed_rows() const { return hidden_rows_.whole(); }

    // Make room for what adapters of a rank (in whole groups) need.
    void reserve(int rank) { low_rows_ = RowBuffer(shape_.int8, kMostRows, 3 * rank); }
    // Before the first layer of a pass.
    void begin(const Plan& plan) { items_ = attention_.prepare(plan); }
    // The rows of the pass through decoder layer `number`, with adapters where there are any. With `keys_only` it ends
    // when keys and values are written.
    void run(const Work& work, int number, const Layer& layer, const Adapters* adapters, bool keys_only);
    // The final norm of `count` of the rows, which the LM head reads.
    void norm(const int32_t* rows, int count, const float* weight);
    // The LM head of `rows` normed rows, for `count` of its tiles, in turn or those named: scores[row][tile][lane].
    void score(const float* normed, int rows, const Matrix& head, const int32_t* tiles, int count, float* scores);

private:
    float* scratch(int thread) { return scratch_.data() + int64_t(thread) * 2 * scratch_size_; }
    float* second_scratch(int thread) { return scratch(thread) + scratch_size_; }
    void for_rows(int rows, const float* values, int stride, RowBuffer& into, const float* norm, const LowRank* low);
    void lower(const LowRank& low, const RowBuffer& from, int row, int thread);
    void add_raised(const LowRank& low, int first, int count, int skipped, int rows, float* out, int stride,
                    int thread);
    void project_heads(const Work& work, int number, const Layer& layer, const Adapters* adapters, bool queries_too);
    void finish_head(const Work& work, int number, const Layer& layer, int unit, int row, float* head);
    void add_product(const Matrix& matrix, const RowBuffer& from, const float* bias, int rows, const LowRank* low);
    void feed_forward(const Layer& layer, int rows, const Adapters* adapters);

    Shape shape_;
    const Kernels& kernels_;
    Pool& pool_;
    Attention attention_;
    int items_ = 0;  // of attention
    int64_t scratch_size_;
    Buffer<float> hidden_, queries_, mixed_, normed_, row_, scratch_;
    RowBuffer hidden_rows_, mixed_rows_, inner_rows_, low_rows_;
};
