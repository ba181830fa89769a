// Worlds: the ranks of a run that continues on survivors, from one world to the next.
#pragma once

#include <cstdint>     // uint64_t
#include <exception>   // exception_ptr
#include <filesystem>  // filesystem
#include <optional>    // checkpoint
#include <string>      // sentences
#include <vector>      // ranks

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/hash.hpp>             // mix64
#include <gx/model/graph.hpp>           // Graph
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
    std::vector<std::string> notes{};  ///< what cannot be used, and why
};
/// The newest checkpoint of this run that is whole: of the epochs `written` down to `first` in
/// `folder`, or else `resumed_from`, where it is not empty.
[[nodiscard]] GX_COLD GX_DECL Return newest_whole(const std::filesystem::path& folder,
                                                  const std::filesystem::path& resumed_from,
                                                  int first, int written, const Graph& graph);

/// Gives the reducer state of the ranks `before` to those of them that are in `now`.
GX_COLD GX_DECL void keep_members(Checkpoint& c, const std::vector<int>& before,
                                  const std::vector<int>& now);

/// The ranks of the present world, by their numbers in the first one.
class Membership {
public:
    explicit Membership(int ranks);

    [[nodiscard]] const std::vector<int>& now() const { return now_; }
    /// After a world: its events.
    GX_COLD GX_DECL void end(std::uint64_t event_hash);
    /// After a world that has lost ranks: the epochs that the run has now done.
    GX_COLD GX_DECL void end_epochs(std::size_t epochs);
    [[nodiscard]] std::uint64_t event_hash() const { return event_hash_; }
    /// The run goes back to the end of that epoch, 0: to its start: those after it are done again,
    /// by the members that the next world has.
    void go_back_to(int epoch);
    /// Members of the world that has done that epoch, from 1; all where an earlier run has.
    [[nodiscard]] const std::vector<int>& wrote(int epoch) const {
        const auto at = std::size_t(epoch) - 1;
        return at < wrote_.size() ? wrote_[at] : all_;
    }
    /// Goes on with the members `left` of the present world; returns the numbers of the others.
    GX_COLD GX_DECL std::vector<int> shrink(const std::vector<int>& left);

private:
    std::vector<int> all_, now_{};
    std::vector<std::vector<int>> wrote_{};
    std::uint64_t event_hash_ = 0;
    int worlds_ = 0;
};

/// What the ranks of a run carry from one world to the next.
template <class R>
class Worlds : public Membership {
public:
    explicit Worlds(int ranks) : Membership(ranks), carried_(std::size_t(ranks)) {}

    /// Of a rank of the present world.
    [[nodiscard]] Carried<R>& carried(int rank) {
        return carried_[std::size_t(now()[std::size_t(rank)])];
    }

    void begin() {
        for (Carried<R>& c : carried_) c.lived = c.failed = false, c.names = -1;
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
