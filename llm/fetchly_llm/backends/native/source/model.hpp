// A model's shape and weights in; passes over the nodes of a draft tree or the tokens of a prompt, and of speculative
// streams where the model has some, out.
#pragma once

#include <memory>
#include <mutex>

#include "layers.hpp"
#include "streams.hpp"

// One pass over `rows` tokens after `committed` ones. parents[r] < r is the row before row r on its path, -1 for row 0.
// Keys and values of row r are written to slot committed + r. `logits` has `vocab` floats for each of `logit_rows`;
// where `logits` is null, the pass only writes keys and values. `states`, which may be null, has room for what streams
// start from: [tap][row][hidden]. cosine and sine: [position][dim / 2].
struct Pass {
    Cache cache;
    const int32_t* tokens;
    const int32_t* parents;
    const int32_t* logit_rows;
    float* logits;
    float* states;
    const float* cosine;
    const float* sine;
    int64_t angles;  // positions that cosine and sine have
    int32_t committed, rows, logit_count;
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
    void run(const Pass& pass);

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
