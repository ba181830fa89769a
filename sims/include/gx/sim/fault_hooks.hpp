// FaultPlan, FaultHooks: all that a world without faults compiles of them; faults.hpp has the rest.
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

#include <gx/core/problems.hpp>  // Problems
#include <gx/core/stream.hpp>    // Operation
#include <gx/core/units.hpp>     // Nanoseconds

namespace gx::sim {

class Engine;
class Network;
class PostOffice;
class Topology;
struct ClusterSpec;
struct Path;
struct Fault;  // in faults.hpp

/// A fault that does not end.
inline constexpr Nanoseconds forever = Nanoseconds::max();

/// Thrown through the code of a rank whose GPU has died. It is no std::exception: nothing handles
/// it but the world, and a rank that is dead answers nobody.
struct RankDied {
    int rank = -1;
};

/// What a world asks about the faults of a run; nullptr where there are none.
class FaultHooks {
public:
    FaultHooks() = default;
    FaultHooks(const FaultHooks&) = delete;  // events point at it
    FaultHooks& operator=(const FaultHooks&) = delete;
    virtual ~FaultHooks() = default;

    // ---- GPUs
    /// When `work` of `rank` that begins now is done, or its death, whichever is first.
    [[nodiscard]] virtual Nanoseconds end_of(int rank, Nanoseconds work, bool compute) = 0;
    /// The end of the pause that holds up `rank` now; now when there is none.
    [[nodiscard]] virtual Nanoseconds end_of_pause(int rank) = 0;
    [[nodiscard]] virtual bool dead(int rank) const = 0;
    /// It is dead and nobody has been told.
    [[nodiscard]] virtual bool silent(int rank) const = 0;
    /// A link of its own, or of its machine's NIC, is cut now.
    [[nodiscard]] virtual bool cut_off(int rank) const = 0;
    /// NICs and switches are lost, and no way to most of the others is left.
    [[nodiscard]] virtual bool unreachable(int rank) const = 0;
    virtual void reducing(int rank, const Operation& operation) = 0;
    /// Told of each gradient message that `rank` is about to post; may be its last moment.
    virtual void sending(int rank) = 0;

    // ---- Messages
    /// Where the way of a message that is now to be sent is lost, and there is another, that one.
    virtual bool reroute(int from, int to, int channel, Path& path) const = 0;
    struct Fate {
        Nanoseconds delay{};
        bool twice = false;
    };
    [[nodiscard]] virtual Fate fate(int from, int to) = 0;
    /// Spoils a gradient message on its way; true when it did.
    virtual bool corrupt(int from, int to, std::span<std::byte> message) = 0;

    /// Faults that changed nothing up to now, each as a sentence.
    [[nodiscard]] virtual std::vector<std::string> unfired() const = 0;
    [[nodiscard]] virtual bool fired(std::size_t fault) const = 0;
};

/// The faults that a world is given, in their order. To give any, include <gx/sim/faults.hpp>.
class FaultPlan {
public:
    /// A list that can be checked and carried out.
    class Listed {
    public:
        Listed() = default;
        Listed(const Listed&) = delete;
        Listed& operator=(const Listed&) = delete;
        virtual ~Listed() = default;
        [[nodiscard]] virtual const std::vector<Fault>& list() const = 0;
        virtual void check(const ClusterSpec& spec, Problems& problems) const = 0;
        /// Some of them take ways away.
        [[nodiscard]] virtual bool reroutes() const = 0;
        [[nodiscard]] virtual std::unique_ptr<FaultHooks> start(
            std::uint64_t seed, Engine& engine, Network& network, const Topology& topology,
            PostOffice& office) const = 0;
    };

    FaultPlan() = default;
    FaultPlan(std::initializer_list<Fault> faults);
    template <std::same_as<std::vector<Fault>> Faults>
    FaultPlan(Faults faults) : listed_(listed(std::move(faults))) {}

    [[nodiscard]] bool empty() const { return listed_ == nullptr; }
    [[nodiscard]] const std::vector<Fault>& list() const;
    /// Adds a sentence to `problems` for everything that cannot be, fault by fault.
    void check(const ClusterSpec& spec, Problems& problems) const {
        if (listed_) listed_->check(spec, problems);
    }
    /// Some of them take ways away: a topology needs to know before.
    [[nodiscard]] bool reroutes() const { return listed_ && listed_->reroutes(); }
    /// nullptr: no faults.
    [[nodiscard]] std::unique_ptr<FaultHooks> start(std::uint64_t seed, Engine& engine,
                                                    Network& network, const Topology& topology,
                                                    PostOffice& office) const {
        return listed_ ? listed_->start(seed, engine, network, topology, office) : nullptr;
    }

private:
    static std::shared_ptr<const Listed> listed(std::vector<Fault> faults);
    std::shared_ptr<const Listed> listed_{};  // never an empty one
};

}  // namespace gx::sim
