#include "streams.hpp"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>

namespace {
constexpr int kTokensAtOnce = 32;  // of a table

int blocks_of(int64_t positions) { return int((positions + kBlock - 1) / kBlock); }
}  // namespace

bool is_tree(const int32_t* parents, int rows) {
    for (int row = 0; row < rows; row++)
        if (row == 0 ? parents[row] != -1 : parents[row] < 0 || parents[row] >= row) return false;
    return true;
}

Streams::Streams(const Shape& model, const StreamShape& shape, const Kernels& kernels, const Weights& model_weights,
                 Layers& layers, Pool& pool)
    : model_(model),
      shape_(shape),
      kernels_(kernels),
      model_weights_(model_weights),
      layers_(layers),
      pool_(pool),
      weights_(model, shape),
      inserted_(shape.taps, shape.taps + shape.tap_count),
      ones_(size_t(model.hidden), 1.0f),
      rows_(size_t(kMostRows)),
      keys_(size_t(model.kv_heads) * blocks_of(kMostRows) * size_t(model.dim) * kBlock),
      values_(size_t(model.kv_heads) * blocks_of(kMostRows) * kBlock * size_t(model.padded())),
      scratch_(size_t(pool.threads())) {
    shape_.taps = nullptr;  // the caller's
    taps_ = inserted_;
    taps_.push_back(shape.first_layer);
    std::sort(taps_.begin(), taps_.end());
    taps_.erase(std::unique(taps_.begin(), taps_.end()), taps_.end());
    std::iota(rows_.begin(), rows_.end(), 0);
    if (shape.adapter_rank) layers.reserve(whole_groups(shape.adapter_rank));
    const int tapped = std::max(shape.tap_count, 1) * model.hidden, markov = whole_groups(shape.markov_rank);
    const int low = whole_groups(std::max({shape.insertion_rank, shape.anchor_rank, 1}));
    for (Scratch& scratch : scratch_) {
        scratch.tapped = RowBuffer(model.int8, 1, tapped);
        scratch.lowered = RowBuffer(model.int8, 1, low);
        scratch.tokens = RowBuffer(model.int8, kTokensAtOnce, model.hidden);
        scratch.row = Buffer<float>(size_t(tapped));
        scratch.low = Buffer<float>(size_t(std::max(low, markov)));
        scratch.products = Buffer<float>(size_t(std::max(model.hidden, kTokensAtOnce * markov)));
        scratch.best.reserve(size_t(shape.top));
    }
}

void Streams::tabulate() {
    const int rank = shape_.markov_rank, columns = whole_groups(rank);
    if (rank == 0) return;
    after_ = Buffer<float>(size_t(model_.vocab) * size_t(rank));
    before_ = Buffer<float>(size_t(model_.vocab) * size_t(rank));
    pool_.run((model_.vocab + kTokensAtOnce - 1) / kTokensAtOnce, [&](int item, int thread) {
        Scratch& scratch = scratch_[size_t(thread)];
        const int first = item * kTokensAtOnce, count = std::min(kTokensAtOnce, model_.vocab - first);
        for (int i = 0; i < count; i++) {
            model_weights_.embed(first + i, scratch.row.data());
            kernels_.store(scratch.row.data(), model_.hidden, scratch.tokens.whole(), i, 0);
        }
        for (bool is_after : {true, false}) {
            const Matrix& matrix = is_after ? weights_.markov_previous() : weights_.markov_next();
            float *products = scratch.products.data(), *table = (is_after ? after_ : before_).data();
            kernels_.product(matrix, 0, matrix.tiles, scratch.tokens.whole(), 0, count, products, columns);
            for (int i = 0; i < count; i++)
                std::copy(products + i * columns, products + i * columns + rank, table + int64_t(first + i) * rank);
        }
    });
}

const char* Streams::objection(const StreamPass& pass) const {
    if (!weights_.complete() || !model_weights_.complete() || (shape_.markov_rank && after_.size() == 0))
        return "tensors are missing";
    if (pass.anchors < 1 || pass.anchors > kMostRows / shape_.gamma) return "a pass has from 1 to 128 rows of streams";
    if (pass.rows < 1 || pass.rows > kMostNodes) return "streams start from a tree of 1 to 64 nodes";
    if (!pass.cache.keys || !pass.cache.values || !pass.states || !pass.nodes || !pass.following || !pass.tokens ||
        !pass.logits || !pass.confidence || (shape_.markov_rank && !pass.factors) || !pass.cosine || !pass.sine)
        return "a pass lacks an array";
    // Before the commit the tree's slots are read, after it the anchor's: a committed one.
    if (pass.cache.blocks < 1 || pass.committed < (pass.parents ? 0 : 1) ||
        int64_t(pass.committed) + (pass.parents ? pass.rows : 0) > pass.cache.blocks * kBlock)
        return "the tree does not fit the cache";
    if (int64_t(pass.committed) + (pass.parents ? pass.rows : 0) + shape_.gamma > pass.angles)
        return "the streams stand beyond the table of angles";
    if (pass.parents && !is_tree(pass.parents, pass.rows)) return "a node's parent does not come before it";
    for (int anchor = 0; anchor < pass.anchors; anchor++) {
        if (pass.nodes[anchor] < 0 || pass.nodes[anchor] >= pass.rows) return "streams start from an unknown node";
        if (pass.following[anchor] < -1 || pass.following[anchor] >= model_.vocab)
            return "a token is outside the vocabulary";
    }
    if (pass.vocabulary == nullptr) return nullptr;
    if (pass.choices < shape_.top) return "streams have fewer tokens to choose from than they propose";
    for (int i = 0; i < pass.choices; i++)
        if (pass.vocabulary[i] <= (i == 0 ? -1 : pass.vocabulary[i - 1]) || pass.vocabulary[i] >= model_.vocab)
            return "the draft vocabulary does not rise within the model's";
    return nullptr;
}

void Streams::run(const StreamPass& pass) {
    pool_.begin();
    const int rows = pass.anchors * shape_.gamma, nodes = pass.parents ? pass.rows : 0;
    const std::vector<int32_t> committed(size_t(pass.anchors), -1);
    const int aside = blocks_of(int64_t(pass.committed) + nodes);
    tree_.lay_out(pass.committed, nodes, pass.parents);
    plan_.lay_out_streams(tree_, pass.parents ? pass.nodes : committed.data(), pass.anchors, shape_.gamma,
                          aside * kBlock);
    layers_.begin(plan_);
    pool_.run(pass.anchors, [&](int anchor, int thread) { start(pass, anchor, scratch_[size_t(thread)]); });
    const Cache own{keys_.data(), values_.data(), blocks_of(kMostRows)};
    const Work work{plan_, Places{model_, pass.cache, own, aside}, pass.cosine, pass.sine};
    for (int number = shape_.first_layer; number < model_.layers; number++)
        layers_.run(work, number, model_weights_.layer(number), weights_.adapters(number), false);
    layers_.norm(rows_.data(), rows, model_weights_.final_norm());
    score(pass, rows);
    pool_.run(rows, [&](int row, int thread) { report(pass, row, scratch_[size_t(thread)]); });
}

// The logits of all tokens, or of the vocabulary's: of the tiles that they stand in, moved together.
void Streams::score(const StreamPass& pass, int rows) {
    const Matrix& head = model_weights_.head();
    const int32_t* chosen = pass.vocabulary;
    choices_ = chosen ? pass.choices : model_.vocab;
    stride_ = blocks_of(choices_) * kBlock;
    tiles_.clear();
    places_.clear();
    for (int i = 0; chosen != nullptr && i < choices_; i++) {
        if (i == 0 || chosen[i] / kLanes != tiles_.back()) tiles_.push_back(chosen[i] / kLanes);
        places_.push_back((int32_t(tiles_.size()) - 1) * kLanes + chosen[i] % kLanes);
    }
    const int tiles = chosen ? int(tiles_.size()) : head.tiles, width = tiles * kLanes;
    if (logits_.size() < size_t(rows) * size_t(stride_)) logits_ = Buffer<float>(size_t(rows) * size_t(stride_));
    if (scores_.size() < size_t(rows) * size_t(width)) scores_ = Buffer<float>(size_t(rows) * size_t(width));
    layers_.score(layers_.normed(0), rows, head, chosen ? tiles_.data() : nullptr, tiles, scores_.data());
    for (int row = 0; row < rows; row++) {
        const float* scores = scores_.data() + int64_t(row) * width;
        float* logits = logits_.data() + int64_t(row) * stride_;
        if (chosen == nullptr) std::copy(scores, scores + choices_, logits);
        for (const int32_t place : places_) *logits++ = scores[place];
    }
}

const float* Streams::state(const StreamPass& pass, int layer, int anchor) const {
    const int64_t tap = std::lower_bound(taps_.begin(), taps_.end(), layer) - taps_.begin();
    return pass.states + (tap * pass.rows + pass.nodes[anchor]) * model_.hidden;
}

// Stream j starts as h + insertion(taps) + anchor(following) + P_j.
void Streams::start(const StreamPass& pass, int anchor, Scratch& scratch) {
    const int hidden = model_.hidden, gamma = shape_.gamma;
    float* first = layers_.hidden(anchor * gamma);
    const float* own = state(pass, shape_.first_layer, anchor);
    std::copy(own, own + hidden, first);
    if (shape_.insertion_rank) {
        for (int i = 0; i < shape_.tap_count; i++)
            kernels_.norm(state(pass, inserted_[size_t(i)], anchor), ones_.data(), model_.epsilon, hidden, hidden,
                          scratch.row.data() + int64_t(i) * hidden);
        kernels_.store(scratch.row.data(), shape_.tap_count * hidden, scratch.tapped.whole(), 0, 0);
        add_low_rank(weights_.insertion(), scratch.tapped, scratch, first);
    }
    if (shape_.anchor_rank && pass.following[anchor] >= 0) {
        model_weights_.embed(pass.following[anchor], scratch.row.data());
        kernels_.store(scratch.row.data(), hidden, scratch.tokens.whole(), 0, 0);
        add_low_rank(weights_.anchor(), scratch.tokens, scratch, first);
    }
    for (int stream = gamma - 1; stream >= 0; stream--)  // the first is read by all of them
        for (int i = 0; i < hidden; i++)
            first[int64_t(stream) * hidden + i] = first[i] + weights_.embedding()[int64_t(stream) * hidden + i];
}

// sum += map of the first row of `from`.
void Streams::add_low_rank(const LowRank& map, const RowBuffer& from, Scratch& scratch, float* sum) {
    const int lowered = map.down.tiles * kLanes;
    kernels_.product(map.down, 0, map.down.tiles, from.whole(), 0, 1, scratch.low.data(), lowered);
    kernels_.store(scratch.low.data(), lowered, scratch.lowered.whole(), 0, 0);
    kernels_.product(map.up, 0, map.up.tiles, scratch.lowered.whole(), 0, 1, scratch.products.data(), model_.hidden);
    for (int i = 0; i < model_.hidden; i++) sum[i] += scratch.products.data()[i];
}

// What one stream proposes.
void Streams::report(const StreamPass& pass, int row, Scratch& scratch) {
    float* logits = logits_.data() + int64_t(row) * stride_;
    select(logits, scratch.best);
    const int64_t place = int64_t(row) * shape_.top;
    for (int i = 0; i < shape_.top; i++) {
        const int best = scratch.best[size_t(i)];
        pass.tokens[place + i] = pass.vocabulary ? pass.vocabulary[best] : best;
        pass.logits[place + i] = logits[best];
    }
    pass.confidence[row] = confidence(row, logits);
    if (shape_.markov_rank) write_factors(pass, row, scratch);
}

// The places of the highest logits, best first, ties to the lowest; a NaN is below everything.
void Streams::select(const float* logits, std::vector<int>& best) const {
    auto value = [&](int place) { return std::isnan(logits[place]) ? -INFINITY : logits[place]; };
    auto is_better = [&](int one, int other) {
        return value(one) != value(other) ? value(one) > value(other) : one < other;
    };
    best.resize(size_t(shape_.top));
    std::iota(best.begin(), best.end(), 0);
    std::make_heap(best.begin(), best.end(), is_better);  // the worst of them is in front
    float worst = value(best.front());
    for (int place = shape_.top; place < choices_; place++) {
        if (!(logits[place] > worst)) continue;
        std::pop_heap(best.begin(), best.end(), is_better);
        best.back() = place;
        std::push_heap(best.begin(), best.end(), is_better);
        worst = value(best.front());
    }
    std::sort_heap(best.begin(), best.end(), is_better);
}

// The confidence head's, or the probability of the best token where there is none, which uses the logits up. Sums and
// exponentials in double precision, rounded once, are the same everywhere.
float Streams::confidence(int row, float* logits) const {
    float found;
    if (shape_.confidence) {
        const float *normed = layers_.normed(row), *weights = weights_.confidence();
        double score = weights_.confidence_bias();
        for (int i = 0; i < model_.hidden; i++) score += double(normed[i]) * double(weights[i]);
        found = float(1.0 / (1.0 + std::exp(-score)));
    } else {
        std::fill(logits + choices_, logits + stride_, -INFINITY);
        found = 1.0f / kernels_.softmax(logits, stride_ / kBlock);
    }
    return found < FLT_MIN ? FLT_MIN : found > 1.0f ? 1.0f : found;  // a NaN stays one
}

// B(a, v) = (P1 E[a] * sigmoid(G h)) . (P2 E[v]): all but P1 E[a], for the stream's best tokens.
void Streams::write_factors(const StreamPass& pass, int row, Scratch& scratch) const {
    const Matrix& gate = weights_.markov_gate();
    const int rank = shape_.markov_rank;
    float* gates = scratch.low.data();
    kernels_.product(gate, 0, gate.tiles, layers_.normed_rows(), row, 1, gates, gate.tiles * kLanes);
    for (int i = 0; i < rank; i++) gates[i] = float(1.0 / (1.0 + std::exp(-double(gates[i]))));
    for (int best = 0; best < shape_.top; best++) {
        const float* before = before_.data() + pass.tokens[int64_t(row) * shape_.top + best] * rank;
        float* factors = pass.factors + (int64_t(row) * shape_.top + best) * rank;
        for (int i = 0; i < rank; i++) factors[i] = gates[i] * before[i];
    }
}
