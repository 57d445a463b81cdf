// The states that a step left at some nodes in; what the speculative streams from those nodes propose out.
//
// Speculative Streaming (Bhendawade et al. 2024, arXiv 2402.11131), as a pass of its own after the step. Streams stand
// in a chain after their node, like nodes of its tree that have no tokens: so they see its path and the streams before
// them, which is multi-stream attention (equation 2). Their keys and values live aside for a layer's time, and the
// cache is only read. What parts there are, and where they come from, stream_config.py says.
#pragma once

#include <vector>

#include "stream_weights.hpp"

constexpr int kMostNodes = 64;  // of a tree that streams start from

// One pass of the streams of `anchors` nodes of the last step, whose tree had `rows` of them. Before the step's commit
// `parents` are the tree's, as of the step, and `committed` is as it was then; after it `parents` is null, the anchor
// is the last committed position, and `nodes` says which row of `states` is its. A `following` token of -1 is not
// known. Of each of the anchors' streams the best tokens, best first, ties to the lowest id, go to tokens[stream][top]
// with their `logits`, and the stream's `confidence`, within (0, 1]. They are among the `choices` tokens of
// `vocabulary`, rising, or among all where it is null. Where there is a Markov head, the dot product of
// factors[stream][top][rank] and what `successor` gives for a token is what that token, before a best one, adds to its
// logit.
struct StreamPass {
    Cache cache;
    const float* states;  // [tap][row][hidden], as the step left them
    const int32_t* parents;
    const int32_t* nodes;
    const int32_t* following;
    const int32_t* vocabulary;
    int64_t* tokens;
    float* logits;
    float* confidence;
    float* factors;
    const float* cosine;
    const float* sine;
    int64_t angles;  // positions that cosine and sine have
    int32_t committed, rows, anchors, choices;
};

// Whether each of `rows` parents comes before its row, and the first is -1.
bool is_tree(const int32_t* parents, int rows);

class Streams {
public:
    Streams(const Shape& model, const StreamShape& shape, const Kernels& kernels, const Weights& model_weights,
            Layers& layers, Pool& pool);

    StreamWeights& weights() { return weights_; }
    // When all tensors are loaded, the model's too: what the Markov head makes of every token.
    void tabulate();
    // Layers whose states a step has to leave, rising: k is the residual stream after the first k.
    const std::vector<int>& taps() const { return taps_; }

    // Why a pass cannot be run; null where it can.
    const char* objection(const StreamPass& pass) const;
    void run(const StreamPass& pass);
    // The Markov head's factor of a token that comes before: `markov_rank` floats. Null where there is none.
    const float* successor(int token) const {
        return after_.size() == 0 ? nullptr : after_.data() + int64_t(token) * shape_.markov_rank;
    }
    int markov_rank() const { return shape_.markov_rank; }

private:
    struct Scratch {  // of a thread
        RowBuffer tapped, lowered, tokens;
        Buffer<float> row, low, products;
        std::vector<int> best;  // places among the choices
    };

    const float* state(const StreamPass& pass, int layer, int anchor) const;
    void start(const StreamPass& pass, int anchor, Scratch& scratch);
    void add_low_rank(const LowRank& map, const RowBuffer& from, Scratch& scratch, float* sum);
    void score(const StreamPass& pass, int rows);
    void report(const StreamPass& pass, int row, Scratch& scratch);
    void select(const float* logits, std::vector<int>& best) const;
    float confidence(int row, float* logits) const;
    void write_factors(const StreamPass& pass, int row, Scratch& scratch) const;

    Shape model_;
    StreamShape shape_;  // without its taps
    const Kernels& kernels_;
    const Weights& model_weights_;
    Layers& layers_;
    Pool& pool_;
    StreamWeights weights_;
    std::vector<int> taps_, inserted_;  // inserted_: those that the insertion layer reads
    std::vector<float> ones_;
    Plan tree_, plan_;
    std::vector<int32_t> rows_;  // 0, 1, ...
    std::vector<int32_t> tiles_, places_;  // of the head, that a pass reads; of its choices in what comes of them
    int choices_ = 0, stride_ = 0;  // of a pass: tokens that it chooses from, and a row of their logits
    Buffer<float> keys_, values_, logits_, scores_;
    Buffer<float> after_, before_;  // [token][markov rank]: P1 E[token] and P2 E[token]
    std::vector<Scratch> scratch_;
};
