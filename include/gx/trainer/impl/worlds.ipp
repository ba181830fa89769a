// Bodies of worlds.hpp.
#pragma once

#include <algorithm>  // find, sort
#include <numeric>    // iota
#include <utility>    // move

#include <gx/core/error.hpp>  // Error
#include <gx/core/hash.hpp>   // mix64
#include <gx/trainer/worlds.hpp>

namespace gx::detail::trainer {

GX_DECL std::string first_sentence(const std::exception_ptr& error) {
    if (!error) return "";
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        const std::string text = e.what();
        return text.substr(0, text.find(". "));
    }
}

GX_DECL void add_earlier(LossRow& loss, const LossRow& earlier) {
    if (earlier.ranks == 0) return;  // there was none
    loss.lost.insert(loss.lost.end(), earlier.lost.begin(), earlier.lost.end());
    std::ranges::sort(loss.lost);
    if (!earlier.error.empty()) loss.error = earlier.error;
}

GX_DECL Return newest_whole(const std::vector<std::filesystem::path>& files, const Graph& graph,
                            FunctionRef<std::string(const Checkpoint&)> flaw) {
    Return out;
    for (const auto& file : files) {
        try {
            Checkpoint c = read_checkpoint(file, graph);
            if (const std::string words = flaw(c); !words.empty())
                throw Error("checkpoint '" + file.string() + "' " + words);
            out.checkpoint = std::move(c);
            out.file = file;
            return out;
        } catch (const Error& e) {
            out.errors.emplace_back(e.what());
        }
    }
    return out;
}

GX_DECL void keep_members(Checkpoint& c, const std::vector<int>& before,
                          const std::vector<int>& now) {
    for (Checkpoint::ReducerVector& v : c.reducer) {
        if (v.replicated) continue;
        std::vector<std::vector<float>> kept;
        for (const int member : now) {
            const auto at = std::ranges::find(before, member) - before.begin();
            kept.push_back(v.ranks.at(std::size_t(at)));
        }
        v.ranks = std::move(kept);
    }
}

GX_DECL void Membership::end(std::uint64_t event_hash) {
    event_hash_ = worlds_++ == 0 ? event_hash : mix64(event_hash_ + golden64) ^ event_hash;
}

GX_DECL std::vector<int> Membership::shrink(const std::vector<int>& left) {
    std::vector<int> gone, stay;
    for (int r = 0; r < int(now_.size()); ++r)
        (std::ranges::find(left, r) == left.end() ? gone : stay).push_back(now_[std::size_t(r)]);
    now_ = std::move(stay);
    return gone;
}

GX_DECL Membership::Membership(int ranks, std::int64_t first_step) : all_(std::size_t(ranks)) {
    std::iota(all_.begin(), all_.end(), 0);
    now_ = all_;
    begun_.push_back({first_step, all_});
}

GX_DECL std::vector<int> Membership::go_back_to(std::int64_t step) {
    while (!begun_.empty() && begun_.back().step >= step) begun_.pop_back();
    std::vector<int> wrote = begun_.empty() ? all_ : begun_.back().members;
    begun_.push_back({step, now_});
    return wrote;
}

}  // namespace gx::detail::trainer
