// A model's shape and weights in; passes over the nodes of a draft tree or the tokens of a prompt, and of speculative
// streams where the model has some, out.
#pragma once

#include <memory>
#include <mutex>

#include "layers.hpp"
#include "streams.hpp"

// One pass over `rows` tokens after `committed` ones. parents[r] < r is the row before row r on its path, -1 for row 0.
// Keys and values of row r are written to slot committed + r. `normed` gets what the LM head reads of each of
// `normed_rows`, `hidden` floats; where it is null, the pass only writes keys and values. `states`, which may be null,
// has room for what streams start from: [tap][row][hidden]. cosine and sine: [position][dim / 2].
struct Pass {
    Cache cache;
    const int32_t* tokens;
    const int32_t* parents;
    const int32_t* normed_rows;
    float* normed;
    float* states;
    const float* cosine;
    const float* sine;
    int64_t angles;  // positions that cosine and sine have
    int32_t committed, rows, normed_count;
};

// What the LM head makes of `rows` rows that passes left in `normed`, for `count` tiles of 16 tokens: scores[row][i][j]
// is the logit of token 16 tiles[i] + j. Where `tiles` is null they are the first `count`.
struct HeadPass {
    const float* normed;
    const int32_t* tiles;
    float* scores;
    int32_t rows, count;
};

class Model {
public:
    Model(const Shape& shape, const Kernels& kernels, int threads);

    Weights& weights() { return weights_; }
    Streams* streams() { return streams_.get(); }  // null where there are none
    Pool& pool() { return pool_; }
    const Shape& shape() const { return shape_; }
    std::mutex& mutex() { return mutex_; }

    void open_streams(const StreamShape& shape) {
        streams_ = std::make_unique<Streams>(shape_, shape, kernels_, weights_, layers_, pool_);
    }

    // Why a pass cannot be run; null where it can.
    const char* objection(const Pass& pass) const;
    const char* objection(const HeadPass& pass) const;
    void run(const Pass& pass);
    void run(const HeadPass& pass);

private:
    void keep_states(const Pass& pass, int layers);

    Shape shape_;
    const Kernels& kernels_;
    Pool pool_;
    std::mutex mutex_;
    Weights weights_;
    Layers layers_;
    std::unique_ptr<Streams> streams_;
    Plan plan_;
};
