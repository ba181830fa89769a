// FaultPlan, FaultInterface: interface to fault injection, for worlds that may have no faults.
#pragma once

#include <concepts>          // same_as
#include <cstddef>           // byte
#include <cstdint>           // uint64_t
#include <initializer_list>  // faults
#include <memory>            // shared_ptr, unique_ptr
#include <span>              // payload
#include <string>            // sentences
#include <utility>           // move
#include <vector>            // lists

#include <gx/io/problems.hpp>  // Problems
#include <gx/core/error.hpp>   // EndsRank
#include <gx/core/stream.hpp>  // Operation
#include <gx/core/units.hpp>   // Nanoseconds

namespace gx::sim {

class Engine;          // in des/engine.hpp
class FlowNetwork;     // in network/network.hpp
class MessageMatcher;  // in world/matching.hpp
class Topology;        // in topology/topology.hpp
struct ClusterSpec;
struct Core;
struct Path;
struct Fault;  // in faults.hpp

/// No end: of a fault, or of what a wait may take.
inline constexpr Nanoseconds forever = Nanoseconds::max();

/// How the transport keeps its promises when messages are delayed, duplicated or corrupted.
/// Values other than the defaults disable a rule, to test whether its absence is detected.
struct DeliveryRules {
    bool checksum = false;           ///< a payload that changed in flight is `corrupted`
    bool discard_duplicates = true;  ///< a second copy is recognised by its number
    bool in_order = true;            ///< a message that overtakes waits for the one it overtook
    bool reroute = true;             ///< messages sent after a NIC or switch failed avoid it
    bool resend = true;              ///< messages in flight there are sent again on another route
};

/// Thrown through the code of a rank whose GPU has died. It does not derive from std::exception:
/// only the world may catch it.
struct RankDied : EndsRank {
    explicit RankDied(int r) : rank(r) {}
    int rank;
};

/// Faults of one run, as queried by the world; nullptr for a run without faults.
class FaultInterface {
public:
    FaultInterface() = default;
    FaultInterface(const FaultInterface&) = delete;  // events point at it
    FaultInterface& operator=(const FaultInterface&) = delete;
    virtual ~FaultInterface() = default;

    // ---- GPUs
    /// Completion time of `work` that `rank` starts now, or the time of its death if earlier.
    [[nodiscard]] virtual Nanoseconds end_of(int rank, Nanoseconds work, bool compute) = 0;
    /// End of the pause of `rank` in progress; now if there is none.
    [[nodiscard]] virtual Nanoseconds end_of_pause(int rank) = 0;
    [[nodiscard]] virtual bool dead(int rank) const = 0;
    /// It is dead, and its connections did not close: peers learn of it at their deadline.
    [[nodiscard]] virtual bool silent(int rank) const = 0;
    /// Whether one of its links, or of its machine's NIC, is cut now.
    [[nodiscard]] virtual bool cut_off(int rank) const = 0;
    /// Whether lost NICs and switches leave no route to most other ranks.
    [[nodiscard]] virtual bool unreachable(int rank) const = 0;
    /// `rank` reduces a bucket, or goes on with it.
    virtual void reducing(int rank, const Operation& operation) = 0;
    /// Called before `rank` posts a gradient message; may kill the rank.
    virtual void sending(int rank) = 0;

    // ---- Messages
    /// If the route has failed and another exists, writes it to `path` and returns true.
    virtual bool reroute(int from, int to, int channel, Path& path) const = 0;
    struct Fate {
        Nanoseconds delay{};
        bool twice = false;
    };
    [[nodiscard]] virtual Fate fate(int from, int to) = 0;
    /// Corrupts a gradient message in flight; returns whether it did.
    virtual bool corrupt(int from, int to, std::span<std::byte> message) = 0;

    /// A sentence for each fault without effect so far.
    [[nodiscard]] virtual std::vector<std::string> unfired() const = 0;
    [[nodiscard]] virtual bool fired(std::size_t fault) const = 0;
};

/// Faults of a world, in order; <gx/sim/fault/faults.hpp> makes them from a list.
class FaultPlan {
public:
    /// A list of faults, with its validation and its injector.
    class Listed {
    public:
        Listed() = default;
        Listed(const Listed&) = delete;
        Listed& operator=(const Listed&) = delete;
        virtual ~Listed() = default;
        [[nodiscard]] virtual const std::vector<Fault>& list() const = 0;
        /// A sentence for each of the first `most`; then one with the number of the others.
        [[nodiscard]] virtual std::vector<std::string> sentences(std::size_t most) const = 0;
        virtual void check(const ClusterSpec& spec, Problems& problems) const = 0;
        /// Whether some of them remove routes.
        [[nodiscard]] virtual bool reroutes() const = 0;
        /// The faults that the core of a cluster `all` meets `passed` after the start of `run`.
        [[nodiscard]] virtual FaultPlan seen_by(const Core& core, const ClusterSpec& all,
                                                Nanoseconds passed,
                                                const FaultInterface* run) const = 0;
        [[nodiscard]] virtual std::unique_ptr<FaultInterface> start(
            std::uint64_t seed, Engine& engine, FlowNetwork& network, const Topology& topology,
            MessageMatcher& matcher) const = 0;
    };

    FaultPlan() = default;
    FaultPlan(std::initializer_list<Fault> faults);
    template <std::same_as<std::vector<Fault>> Faults>
    FaultPlan(Faults faults) : listed_(listed(std::move(faults))) {}

    [[nodiscard]] bool empty() const { return listed_ == nullptr; }
    [[nodiscard]] const std::vector<Fault>& list() const;
    explicit FaultPlan(std::shared_ptr<const Listed> listed) : listed_(std::move(listed)) {}
    /// A sentence for each of the first `most` faults; then one with the number of the others.
    [[nodiscard]] std::vector<std::string> sentences(std::size_t most) const {
        return listed_ ? listed_->sentences(most) : std::vector<std::string>{};
    }
    /// Adds a sentence to `problems` for each invalid field of each fault.
    void check(const ClusterSpec& spec, Problems& problems) const {
        if (listed_) listed_->check(spec, problems);
    }
    /// Whether some of them remove routes, so that the topology needs failover routes.
    [[nodiscard]] bool reroutes() const { return listed_ && listed_->reroutes(); }
    /// The faults that the core of a cluster `all` meets `passed` after the start of `run`: those
    /// that are not over. What had an effect counts as fired from the start.
    [[nodiscard]] FaultPlan seen_by(const Core& core, const ClusterSpec& all, Nanoseconds passed,
                                    const FaultInterface* run) const {
        return listed_ ? listed_->seen_by(core, all, passed, run) : FaultPlan{};
    }
    /// nullptr: no faults.
    [[nodiscard]] std::unique_ptr<FaultInterface> start(std::uint64_t seed, Engine& engine,
                                                        FlowNetwork& network,
                                                        const Topology& topology,
                                                        MessageMatcher& matcher) const {
        return listed_ ? listed_->start(seed, engine, network, topology, matcher) : nullptr;
    }

private:
    static std::shared_ptr<const Listed> listed(std::vector<Fault> faults);
    std::shared_ptr<const Listed> listed_{};  // never an empty one
};

}  // namespace gx::sim
