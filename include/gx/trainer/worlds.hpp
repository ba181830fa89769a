// Worlds: ranks of a run that continues on survivors, from world to world.
#pragma once

#include <cstdint>     // uint64_t
#include <exception>   // exception_ptr
#include <filesystem>  // filesystem
#include <optional>    // checkpoint
#include <string>      // sentences
#include <vector>      // ranks

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/function_ref.hpp>     // FunctionRef
#include <gx/core/hash.hpp>             // mix64
#include <gx/model/graph.hpp>           // Graph
#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/trainer/rank/carried.hpp>  // Carried
#include <gx/trainer/checkpoint.hpp>    // Checkpoint
#include <gx/trainer/record.hpp>        // LossRow

namespace gx::detail::trainer {

/// The first sentence of an exception.
[[nodiscard]] GX_COLD GX_DECL std::string first_sentence(const std::exception_ptr& error);

/// Makes `loss` that of both where no step was made between them.
GX_COLD GX_DECL void add_earlier(LossRow& loss, const LossRow& earlier);

/// A checkpoint to go back to, if there is one, and its file.
struct Return {
    std::optional<Checkpoint> checkpoint{};
    std::filesystem::path file{};
    std::vector<std::string> errors{};  ///< why newer ones can't be used
};
/// The first of `files` that is whole, and that `flaw` has no words for.
[[nodiscard]] GX_COLD GX_DECL Return newest_whole(const std::vector<std::filesystem::path>& files,
                                                  const Graph& graph,
                                                  FunctionRef<std::string(const Checkpoint&)> flaw);

/// The newest checkpoints that a world has written.
struct Written {
    int epochs = 0;  ///< after that epoch; 0: none
    WrittenStep within{};
    /// As one number, which processes agree on.
    [[nodiscard]] std::int64_t number() const {
        const std::int64_t since = epochs - within.epochs;
        GX_EXPECT(since >= 0, "a checkpoint within an epoch follows no later one");
        const bool near = within.step > 0 && since < (1 << since_bits);
        return (near ? within.step << since_bits | since : 0) << epoch_bits | epochs;
    }
    [[nodiscard]] static Written from(std::int64_t number) {
        const int epochs = int(number & ((1 << epoch_bits) - 1));
        const std::int64_t rest = number >> epoch_bits, step = rest >> since_bits;
        if (step == 0) return {epochs, {}};
        return {epochs, {step, epochs - int(rest & ((1 << since_bits) - 1))}};
    }

private:
    static constexpr int epoch_bits = 22, since_bits = 8;  // and 33 for steps
};

/// Gives the reducer state of the ranks `before` to those of them that are in `now`.
GX_COLD GX_DECL void keep_members(Checkpoint& c, const std::vector<int>& before,
                                  const std::vector<int>& now);

/// The ranks of the present world, by their numbers in the first one.
class Membership {
public:
    /// `first_step`: that the run begins with.
    GX_COLD GX_DECL explicit Membership(int ranks, std::int64_t first_step = 0);

    [[nodiscard]] const std::vector<int>& now() const { return now_; }
    /// After a world: its events.
    GX_COLD GX_DECL void end(std::uint64_t event_hash);
    [[nodiscard]] std::uint64_t event_hash() const { return event_hash_; }
    /// The run goes back to a checkpoint after `step` steps, or to its start: those after it are
    /// made again, by the members that it now has. Returns the members of the world that wrote it,
    /// all where an earlier run has.
    GX_COLD GX_DECL std::vector<int> go_back_to(std::int64_t step);
    /// Goes on with the members `left` of the present world; returns the numbers of the others.
    GX_COLD GX_DECL std::vector<int> shrink(const std::vector<int>& left);

private:
    struct Begun {
        std::int64_t step = 0;  ///< its checkpoints come after more
        std::vector<int> members{};
    };
    std::vector<int> all_, now_{};
    std::vector<Begun> begun_{};  ///< worlds, by rising steps
    std::uint64_t event_hash_ = 0;
    int worlds_ = 0;
};

/// What the ranks of a run carry from one world to the next.
template <class R>
class Worlds : public Membership {
public:
    Worlds(int ranks, std::int64_t first_step)
        : Membership(ranks, first_step), carried_(std::size_t(ranks)) {}

    /// Of a rank of the present world.
    [[nodiscard]] Carried<R>& carried(int rank) {
        return carried_[std::size_t(now()[std::size_t(rank)])];
    }

    void begin() {
        for (Carried<R>& c : carried_) {
            c.lived = c.failed = false, c.names = -1;
            c.written.clear();
        }
    }
    /// The ranks of the present world that are named as lost, ascending.
    [[nodiscard]] std::vector<int> lost() {
        std::vector<int> out;
        for (int r = 0; r < int(now().size()); ++r) {
            bool named = carried(r).failed;
            for (int other = 0; other < int(now().size()); ++other)
                named = named || (carried(other).lived && carried(other).names == r);
            if (named) out.push_back(r);
        }
        return out;
    }
    /// No member has a state of its own any more, but the time that has passed.
    void forget() {
        for (Carried<R>& c : carried_) c.trained = false;
    }

private:
    std::vector<Carried<R>> carried_;
};

}  // namespace gx::detail::trainer

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/worlds.ipp>
#endif
