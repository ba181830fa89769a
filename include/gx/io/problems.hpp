// Problems: collects error sentences, so that one exception reports all of them.
#pragma once

#include <cstddef>      // size_t
#include <string>       // sentences
#include <string_view>  // titles
#include <vector>       // the list

#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/error.hpp>  // Error

namespace gx {

/// List of error sentences that becomes one gx::Error.
///
///     Problems problems;
///     problems.check(o.batch > 0, "batch is 0: train with at least 1 image a rank");
///     problems.check(o.epochs > 0, "epochs is 0: train for at least 1");
///     problems.throw_if_any("these options cannot train");
class Problems {
public:
    /// Adds `sentence` unless `good`. Returns `good`, for checks that depend on each other.
    bool check(bool good, std::string_view sentence);
    void add(std::string sentence);

    /// Runs `f` and adds the text of a gx::Error that it throws. Other exceptions pass.
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

    /// Returns "title:", then each sentence on a line of its own, in the order they were found.
    [[nodiscard]] std::string text(std::string_view title) const;

    /// Errors: throws gx::Error(text(title)) unless nothing was found.
    void throw_if_any(std::string_view title) const;

private:
    std::vector<std::string> sentences_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/problems.ipp>
#endif
