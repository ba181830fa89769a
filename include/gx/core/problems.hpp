// Problems: collects everything that is wrong, so that one error tells all of it at once.
#pragma once

#include <cstddef>      // size_t
#include <string>       // sentences
#include <string_view>  // titles
#include <utility>      // move
#include <vector>       // the list

#include <gx/core/error.hpp>  // Error

namespace gx {

/// A list of sentences that becomes one gx::Error.
///
///     Problems problems;
///     problems.check(o.batch > 0, "batch is 0: train with at least 1 image a rank");
///     problems.check(o.epochs > 0, "epochs is 0: train for at least 1");
///     problems.throw_if_any("these options cannot train");
class Problems {
public:
    /// Adds `sentence` unless `good`. Answers `good`, for checks that depend on each other.
    bool check(bool good, std::string_view sentence) {
        if (!good) add(std::string(sentence));
        return good;
    }
    void add(std::string sentence) { sentences_.push_back(std::move(sentence)); }

    /// Runs `f` and keeps the sentence of the gx::Error it throws, if any. Other exceptions pass.
    template <class F>
    bool collect(F&& f) {
        try {
            f();
            return true;
        } catch (const Error& error) {
            add(error.what());
            return false;
        }
    }

    [[nodiscard]] const std::vector<std::string>& sentences() const { return sentences_; }
    [[nodiscard]] bool empty() const { return sentences_.empty(); }

    /// "title:", then each sentence on a line of its own, in the order they were found.
    [[nodiscard]] std::string text(std::string_view title) const {
        std::string all = std::string(title) + ":";
        for (const std::string& sentence : sentences_) all += "\n  - " + sentence;
        return all;
    }

    /// Errors: throws gx::Error(text(title)) unless nothing was found.
    void throw_if_any(std::string_view title) const {
        if (!empty()) throw Error(text(title));
    }

private:
    std::vector<std::string> sentences_;
};

}  // namespace gx
