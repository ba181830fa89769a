// FarMachine: ranks with queues whose work runs late, in an order from a seed.
#pragma once

#include <condition_variable>  // turns
#include <cstdint>             // uint64_t
#include <deque>               // queues
#include <exception>           // exception_ptr
#include <functional>          // work
#include <map>                 // host messages
#include <memory>              // unique_ptr
#include <mutex>               // turns
#include <span>                // memory
#include <string>              // names
#include <tuple>               // tuple
#include <vector>              // ranks

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/error.hpp>             // Delivery
#include <gx/core/function_ref.hpp>      // FunctionRef
#include <gx/core/rng.hpp>               // Rng
#include <gx/core/stream.hpp>            // Event
#include <gx/core/transport.hpp>         // Placement
#include <gx/testing/far/memory.hpp>     // FarArena
#include <gx/testing/race_detector.hpp>  // RaceDetector

namespace gx::testing {

/// When queued work runs.
enum class QueueProgress : unsigned char {
    late,   ///< only when every rank waits: a host that does not wait meets stale memory
    eager,  ///< as soon as it can: memory that is reused too early holds the right values
    random  ///< some of it at each call, drawn from the seed
};

/// A unit of work of a queue.
struct FarWork {
    struct Use {
        std::span<const std::byte> memory;  ///< as the host sees it
        bool writes = false;
        bool on_host = false;  ///< memory of the host, such as the target of a copy
    };
    struct Message {
        bool sends = false;
        int peer = -1;
        std::span<std::byte> memory;  ///< as the host sees it
        std::size_t id = 0;           ///< for the RaceDetector, from its posting on
        bool done = false;
    };
    Operation operation{};
    std::vector<Use> uses{};
    std::function<void()> run{};      ///< the kernel
    Event awaited{};                  ///< of another queue: its later work waits for it
    std::vector<Message> messages{};  ///< of a group
    bool posted = false;              ///< the group was reached
};

/// The devices of several ranks and their hosts. Hosts are threads of which one runs at a time, and
/// each unit of queued work runs whole, in an order drawn from a seed: equal seeds repeat a run.
/// Accesses to views and to targets of copies go to a RaceDetector, whose actors are hosts and
/// queues. Not seen: memory behind pointers that a kernel holds, aliasing inside one kernel, and a
/// kernel that indexes beyond its views into the room between two buffers.
/// run() is called once.
///
/// Errors: the first of these stops all ranks; run() throws it, and every wait returns `cancelled`:
///             Race       two uses of far memory that no event orders, named; those of messages
///                        last from the posting of their group to their delivery
///             gx::Error  a kernel on memory beyond its buffer or released; a buffer released while
///                        queued work uses it; messages of unequal lengths; an event of another
///                        rank's queue, or one that was never recorded; hosts and queues that all
///                        wait for each other
///         An exception of a host comes first; what its destructors release while queued work uses
///         it is named behind it.
///         A wait that only a rank that has left could complete returns `timed_out` with that rank,
///         and those of the others `cancelled`.
///         LostRank and DeviceLost of a host end that rank alone, and what it has queued; run()
///         throws the first of them after all ranks have left.
class FarMachine {
public:
    GX_DECL FarMachine(Placement placement, std::uint64_t seed, QueueProgress progress);
    FarMachine(const FarMachine&) = delete;
    FarMachine& operator=(const FarMachine&) = delete;
    GX_DECL ~FarMachine();

    [[nodiscard]] Placement placement() const { return placement_; }
    [[nodiscard]] FarArena& arena(int rank) { return *at(rank).arena; }
    /// Units of work that were run.
    [[nodiscard]] std::uint64_t done() const { return done_; }

    /// Calls f(rank) for every rank, on a thread each, and runs what they have queued.
    GX_DECL void run(FunctionRef<void(int)> f);

    // What follows is called by the host of `rank`, inside of run().
    [[nodiscard]] GX_DECL int add_queue(int rank, const Label& name);
    GX_DECL void enqueue(int queue, FarWork work);
    /// The point behind all that was enqueued.
    [[nodiscard]] GX_DECL Event record(int queue) const;
    /// Later work of `queue` waits for `event`, of a queue of the same rank.
    GX_DECL void enqueue_wait(int queue, Event event);
    /// The host waits.
    [[nodiscard]] GX_DECL Delivery wait(int rank, Event event);
    /// Where it is, what the host does next is behind the event. Event{}, before all work, is.
    /// Where it is not, another host or queue goes on by a step, so that a loop of this ends.
    /// Errors, where 100,000 calls of all ranks in a row find that nothing else can go on: LostRank
    /// where any rank waits for one that has left, else gx::Error. gx::Error where the run has
    /// ended with an error.
    [[nodiscard]] GX_DECL bool reached(int rank, Event event);
    /// Runs what the rank has queued and needs no other rank for; then drops what is left in
    /// `queue`, whose events count as reached.
    GX_DECL void abandon(int queue);
    /// The host uses memory that queued work uses too, such as the target of a copy.
    GX_DECL void host_uses(int rank, std::span<const std::byte> memory, bool writes,
                           const Operation& what);
    /// Registers such memory, or far memory, under a name; and its end.
    GX_DECL void register_memory(int rank, std::span<const std::byte> memory, const Label& name);
    GX_DECL void forget_memory(int rank, std::span<const std::byte> memory, const Operation& what);

    // Messages between hosts: what a control channel carries.
    GX_DECL void host_send(int rank, int to, int channel, std::span<const std::byte> message);
    [[nodiscard]] GX_DECL Delivery host_receive(int rank, int from, int channel,
                                                std::span<std::byte> message);
    [[nodiscard]] GX_DECL bool host_message_waits(int rank, int from, int channel) const;
    /// Waits until ready() is true; false where only ranks that have left could make it so.
    [[nodiscard]] GX_DECL Delivery host_wait(int rank, std::function<bool()> ready, int peer,
                                             const std::string& what);
    GX_DECL void fail(std::exception_ptr error, int rank);
    /// The same, and throws it, which the host of `rank` may catch.
    [[noreturn]] GX_DECL void stop_at(int rank, const Error& error);

private:
    struct Queue {
        int rank = -1;
        int actor = -1;
        Label name{};
        std::deque<FarWork> work{};
        std::uint64_t queued = 0, done = 0;
    };
    struct Host {
        int actor = -1;
        std::unique_ptr<FarArena> arena;
        std::condition_variable turn{};
        std::function<bool()> ready{};  ///< of its wait; empty: it can run
        std::string waits_for{};
        Event event{};  ///< that it waits for, or
        int peer = -1;  ///< the rank whose host message it waits for
        Delivery gave_up{};
        std::string misuse{};  ///< by destructors, while an exception left its function
        bool left = false;
        bool polls = false;  ///< it goes on where nothing else can
    };
    struct HostMessage {
        std::vector<std::byte> bytes;
        std::size_t id = 0;
    };
    struct Action {
        int host = -1;                                   ///< it runs, or
        int queue = -1;                                  ///< the head of this queue does, or
        int message = -1, peer = -1, peer_message = -1;  ///< a message to queue `peer`
    };

    Host& at(int rank) { return hosts_[static_cast<std::size_t>(rank)]; }
    Queue& queue(int q) { return queues_[static_cast<std::size_t>(q)]; }
    const Queue& queue(int q) const { return queues_[static_cast<std::size_t>(q)]; }

    Delivery block(int rank, std::function<bool()> ready, std::string what);
    void pass_turn(int from);
    void poll(int rank, Event event);
    void lose(int rank);  ///< in a handler
    [[nodiscard]] bool can_run(const FarWork& head) const;
    void drop(int q);
    std::vector<Action> actions();
    bool act(const Action& a);  ///< true: a host has the turn now
    void run_head(int q);
    void transfer(const Action& a);
    void finish_head(int q);
    void check(int q, const FarWork& w);
    std::size_t unused_id();
    void make_progress();
    [[nodiscard]] bool give_up();
    [[nodiscard]] std::string name_of(Event event) const;
    int missing_rank(int rank, std::vector<bool>& seen) const;
    int missing_rank(const Queue& q, std::uint64_t sequence, std::vector<bool>& seen) const;
    [[nodiscard]] std::string stuck() const;
    void expect_event(int rank, Event event);
    [[nodiscard]] std::string flaw_of(int rank, Event event) const;
    [[nodiscard]] bool reached(Event event) const {
        return queue(event.stream).done >= event.sequence;
    }
    std::uint64_t draw(std::uint64_t n) { return rng_.below(draws_++, n); }

    Placement placement_;
    QueueProgress progress_;
    Rng rng_;
    std::uint64_t draws_ = 0, done_ = 0;
    RaceDetector detector_;
    std::deque<Host> hosts_{};
    std::deque<Queue> queues_{};
    std::map<std::tuple<int, int, int>, std::deque<HostMessage>> mail_{};
    std::size_t ids_ = 0;
    std::vector<std::size_t> unused_ids_{};
    std::exception_ptr error_{}, loss_{};
    int failed_ = -1;
    int fruitless_ = 0;  ///< polls in a row while only hosts that poll could go on
    std::mutex mutex_{};
    int turn_ = -1;
};

}  // namespace gx::testing

#if defined(GX_HEADER_ONLY)
#include <gx/testing/far/impl/machine.ipp>
#endif
