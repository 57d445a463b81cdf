// A model's shape and weights in; passes over the nodes of a draft tree or the tokens of a prompt out.
#pragma once

#include <mutex>

#include "attention.hpp"
#include "pool.hpp"
#include "weights.hpp"

constexpr int kMostRows = 128;  // of one pass

// One pass over `rows` tokens after `committed` ones. parents[r] < r is the row before row r on its path, -1 for row 0.
// Keys and values of row r are written to slot committed + r. `logits` has `vocab` floats for each of `logit_rows`;
// where `logits` is null, the pass only writes keys and values. cosine and sine: [position][dim / 2].
struct Pass {
    Cache cache;
    const int32_t* tokens;
    const int32_t* parents;
    const int32_t* logit_rows;
    float* logits;
    const float* cosine;
    const float* sine;
    int64_t angles;  // positions that cosine and sine have
    int32_t committed, rows, logit_count;
};

class Model {
public:
    Model(const Shape& shape, const Kernels& kernels, int threads);

    Weights& weights() { return weights_; }
    Pool& pool() { return pool_; }
    const Shape& shape() const { return shape_; }
    std::mutex& mutex() { return mutex_; }

    // Why a pass cannot be run; null where it can.
    const char* objection(const Pass& pass) const;
    void run(const Pass& pass);

private:
    struct RowBuffer {
        Buffer<int8_t> quants;
        Buffer<float> scales, floats;
        Buffer<int32_t> offsets;
        Rows rows;
    };

    RowBuffer make_rows(int inputs) const;
    float* scratch(int thread) { return scratch_.data() + thread * scratch_size_; }
    void for_rows(int rows, const float* values, int stride, RowBuffer& into, const float* norm);
    void project_heads(const Pass& pass, int layer, bool queries_too);
    void finish_head(const Pass& pass, int layer, int unit, int row, float* head);
    void add_product(const Matrix& matrix, const RowBuffer& from, const float* bias, int rows);
    void feed_forward(const Layer& layer, int rows);
    void write_logits(const Pass& pass);

    Shape shape_;
    const Kernels& kernels_;
    Pool pool_;
    std::mutex mutex_;
    Weights weights_;
    Attention attention_;
    Plan plan_;
    int64_t scratch_size_;
    Buffer<float> hidden_, queries_, mixed_, picked_, normed_, scratch_;
    RowBuffer hidden_rows_, mixed_rows_, inner_rows_;
};
