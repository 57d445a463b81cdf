#include "model.hpp"

#include <algorithm>

Model::Model(const Shape& shape, const Kernels& kernels, int threads)
    : shape_(shape), kernels_(kernels), pool_(threads), weights_(shape), layers_(shape, kernels, pool_) {}

const char* Model::objection(const Pass& pass) const {
    if (!weights_.complete()) return "tensors are missing";
    if (pass.rows < 1 || pass.rows > kMostRows) return "a pass has from 1 to 128 rows";
    if (!pass.cache.keys || !pass.cache.values || !pass.tokens || !pass.parents || !pass.cosine || !pass.sine)
        return "a pass lacks an array";
    if (pass.cache.blocks < 1 || pass.committed < 0 ||
        int64_t(pass.committed) + pass.rows > pass.cache.blocks * kBlock)
        return "the rows do not fit the cache";
    if (int64_t(pass.committed) + pass.rows > pass.angles) return "the rows stand beyond the table of angles";
    for (int row = 0; row < pass.rows; row++)
        if (pass.tokens[row] < 0 || pass.tokens[row] >= shape_.vocab) return "a token is outside the vocabulary";
    if (!is_tree(pass.parents, pass.rows)) return "a row's parent does not come before it";
    if (pass.states != nullptr && streams_ == nullptr) return "there are no streams to keep states for";
    if (pass.normed == nullptr) return nullptr;
    if (pass.normed_count < 0 || pass.normed_count > pass.rows || (pass.normed_count > 0 && !pass.normed_rows))
        return "the head's input is asked of more rows than there are";
    for (int i = 0; i < pass.normed_count; i++)
        if (pass.normed_rows[i] < 0 || pass.normed_rows[i] >= pass.rows)
            return "the head's input is asked of an unknown row";
    return nullptr;
}

const char* Model::objection(const HeadPass& pass) const {
    if (!weights_.complete()) return "tensors are missing";
    if (!pass.normed || !pass.scores) return "a pass lacks an array";
    if (pass.rows < 1 || pass.rows > kMostRows) return "a pass has from 1 to 128 rows";
    const int tiles = weights_.head().tiles;
    if (pass.count < 0 || pass.count > tiles) return "logits are asked of more tiles than there are";
    for (int i = 0; pass.tiles != nullptr && i < pass.count; i++)
        if (pass.tiles[i] < 0 || pass.tiles[i] >= tiles) return "logits are asked of an unknown tile";
    return nullptr;
}

void Model::run(const Pass& pass) {
    pool_.begin();
    plan_.lay_out(pass.committed, pass.rows, pass.parents);
    layers_.begin(plan_);
    for (int row = 0; row < pass.rows; row++) weights_.embed(pass.tokens[row], layers_.hidden(row));
    keep_states(pass, 0);
    const Work work{plan_, Places{shape_, pass.cache}, pass.cosine, pass.sine};
    for (int number = 0; number < shape_.layers; number++) {
        const bool keys_only = pass.normed == nullptr && number + 1 == shape_.layers;
        layers_.run(work, number, weights_.layer(number), nullptr, keys_only);
        if (!keys_only) keep_states(pass, number + 1);
    }
    if (pass.normed == nullptr || pass.normed_count == 0) return;
    layers_.norm(pass.normed_rows, pass.normed_count, weights_.final_norm());
    std::copy(layers_.normed(0), layers_.normed(pass.normed_count), pass.normed);
}

void Model::run(const HeadPass& pass) {
    layers_.score(pass.normed, pass.rows, weights_.head(), pass.tiles, pass.count, pass.scores);
}

// The residual stream after so many layers, if streams want it.
void Model::keep_states(const Pass& pass, int layers) {
    if (pass.states == nullptr) return;
    const std::vector<int>& taps = streams_->taps();
    const auto tap = std::find(taps.begin(), taps.end(), layers);
    if (tap == taps.end()) return;
    const int64_t size = int64_t(pass.rows) * shape_.hidden;
    std::copy(layers_.hidden(0), layers_.hidden(0) + size, pass.states + (tap - taps.begin()) * size);
}
