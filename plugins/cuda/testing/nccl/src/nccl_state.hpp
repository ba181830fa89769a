// Nccl: communicators, groups and kernels of the double, beside the runtime's state.
#pragma once

#include <nccl.h>  // ncclComm_t

#include <cstddef>        // byte
#include <cstdint>        // uint64_t
#include <deque>          // handles that stay where they are
#include <functional>     // work that is not queued yet
#include <map>            // cliques
#include <memory>         // shared_ptr
#include <optional>       // a division
#include <set>            // pairs of devices
#include <string>         // sentences
#include <thread>         // who has a group open
#include <unordered_set>  // handles
#include <utility>        // pair
#include <vector>         // ranks

#include <gx/core/rng.hpp>           // Rng
#include <gx/nccl_testing/nccl.hpp>  // NcclOptions, NcclCounters

#include "../../runtime/src/state.hpp"  // Runtime, Extension

namespace gx::nccl_testing {

using cuda_testing::CallRules;
using cuda_testing::Operation;
using cuda_testing::Point;
using cuda_testing::Runtime;
using cuda_testing::Use;

struct Join;
struct Kernel;

/// Datagrams between the processes that hold the ranks of one id: each has a socket of an abstract
/// name. Frames of any length arrive whole, and in the order of each sender.
class Wire {
public:
    Wire(std::string id, int rank, int ranks);
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;
    ~Wire();
    /// Whether no other process is this rank.
    [[nodiscard]] bool is_bound() const { return bound_; }
    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return static_cast<int>(peers_.size()); }
    void send(int to, const std::string& frame);
    /// The next frame, which begins with its kind; "": none has come.
    [[nodiscard]] std::string receive();
    /// Sends what the system took not yet. Whether all of it is sent.
    bool flush();
    /// The process of a rank that has said so. Before it, a socket that is not there comes later.
    void met(int rank, int process);
    /// Whether that process has ended.
    [[nodiscard]] bool has_ended(int rank) const;

private:
    struct Peer {
        std::deque<std::string> out{};  ///< datagrams
        std::string part{};             ///< of a frame that is not whole
        int process = -1;               ///< a descriptor of it
    };
    std::string id_;
    int rank_, socket_;
    bool bound_;
    std::vector<Peer> peers_;
};

/// One call of a group: a message, or a rank's part of a collective.
struct Part {
    enum class Kind : unsigned char {
        send,
        receive,
        all_reduce,
        broadcast,
        all_gather,
        reduce_scatter
    };
    Kind kind = Kind::send;
    const void* in = nullptr;  ///< nullptr: reads nothing
    void* out = nullptr;       ///< nullptr: writes nothing
    std::size_t count = 0;     ///< of the call
    ncclDataType_t type = ncclFloat32;
    ncclRedOp_t op = ncclSum;
    int peer = -1;  ///< of a message; the root of a broadcast

    // Of the present run
    bool met = false;
    std::vector<std::byte> bytes{};  ///< of `in`; where it has met: what goes to `out`
    std::vector<Point> behind{};     ///< what its end comes after

    [[nodiscard]] bool is_message() const { return kind == Kind::send || kind == Kind::receive; }
};

/// The calls of a group on one communicator: one launch on its device.
struct Kernel {
    ncclComm* comm = nullptr;
    std::string name{};
    std::vector<Part> parts{};
    bool captured = false;
    std::uint64_t ticket = 0;  ///< order of launch on its communicator; not of captured ones
    bool runs = false;
    Point arrived{};
};

/// Where a part lies.
struct Half {
    std::shared_ptr<Kernel> kernel{};
    std::size_t part = 0;
    [[nodiscard]] Part& operator*() const { return kernel->parts[part]; }
    [[nodiscard]] Part* operator->() const { return &kernel->parts[part]; }
};

/// The ranks of one communicator.
struct Clique {
    std::string key{};             ///< the same in all processes; "": it lies in this one
    std::shared_ptr<Wire> wire{};  ///< to other processes; nullptr: it lies in this one
    struct Pair {
        std::deque<Half> sends{}, receives{};  ///< that came first and wait
    };
    int number = 0;
    std::vector<ncclComm*> members{};
    std::map<std::pair<int, int>, Pair> pairs{};  ///< from, to
    std::map<std::uint64_t, std::vector<Half>>
        collectives{};  ///< by rank; those that are not whole
    std::map<std::pair<bool, int>, std::shared_ptr<Join>> joins{};  ///< splits and shrinks
};

/// Ranks that meet to make communicators: of one id, or of one split or shrink of a clique.
struct Join {
    enum class Kind : unsigned char { init, split, shrink };
    struct Rank {
        ncclComm* comm = nullptr;  ///< nullptr: takes part without a communicator
        int rank = 0, color = 0, key = 0;
    };
    Kind kind = Kind::init;
    std::string
        key{};  ///< of an id or of the clique that is divided, with the number of its division
    std::shared_ptr<Wire> wire{};
    std::string name{};  ///< "id 1"
    int expected = 0;
    std::vector<Rank> ranks{};
    std::vector<int> excluded{};
    bool hangs = false;
    bool done = false;
};

/// What a host thread has collected since ncclGroupStart.
struct Group {
    struct Call {
        ncclComm* comm = nullptr;
        CUstream_st* stream = nullptr;
        Part part{};
    };
    std::uint64_t generation = 0;  ///< of the runtime: what is of an earlier one is void
    int depth = 0;
    ncclResult_t refused = ncclSuccess;  ///< by a call, so that its end launches nothing
    std::vector<Call> calls{};
    std::vector<std::pair<ncclComm*, ncclComm_t*>> joins{};
    std::optional<bool> joins_block{};  ///< nullopt: there was none
};

}  // namespace gx::nccl_testing

/// One rank of a communicator: what a program's handle is of.
struct ncclComm {
    /// Those that do not block pass through `connecting` and `finalizing`: in progress until a poll
    /// says that they no longer are.
    enum class State : unsigned char {
        joining,
        failed,
        connecting,  ///< all ranks have come
        ready,
        finalizing,
        finalized,
        ended
    };
    std::string name{};  ///< "rank 1 of communicator 2"
    State state = State::joining;
    std::shared_ptr<gx::nccl_testing::Clique> clique{};
    std::shared_ptr<gx::nccl_testing::Join> join{};
    int rank = 0, ranks = 0, device = 0;
    bool blocking = true;
    std::string ended_by{};  ///< the call behind which the handle is void
    std::shared_ptr<gx::nccl_testing::Wire> wire{};
    int on_wire = 0;         ///< its rank there
    bool is_remote = false;  ///< of another process
    bool aborted = false;

    // Faults
    bool dead = false;
    int dies_in = 0;  ///< kernels; 0: never
    gx::nccl_testing::PeersSee peers_see = gx::nccl_testing::PeersSee::nothing;
    ncclResult_t error = ncclSuccess;    ///< asynchronous
    ncclResult_t refuses = ncclSuccess;  ///< what its next call returns
    std::string reason{};                ///< of `error`

    // Work
    std::uint64_t issued = 0, arrived = 0;  ///< kernels that are not captured
    std::uint64_t collectives = 0;          ///< that arrived
    std::shared_ptr<gx::nccl_testing::Kernel> running{};
    std::map<CUstream_st*, gx::cuda_testing::Point> ends{};  ///< of its work on each stream

    // Calls
    std::thread::id user{};  ///< the thread that is inside of a call or a group with it
    int uses = 0;
    std::string used_by{};          ///< the call
    int polls_left = 0;             ///< of a non-blocking one in progress
    std::function<void()> later{};  ///< what is queued then
    int splits = 0, shrinks = 0;
    /// A division that has not ended: where the handle of the new communicator goes.
    struct Child {
        ncclComm* comm;
        ncclComm** to;
    };
    std::optional<Child> child{};
    std::map<void*, const void*> registered{};  ///< by handle
};

namespace gx::nccl_testing {

using State = ncclComm::State;

class Nccl final : public cuda_testing::Extension {
public:
    explicit Nccl(Runtime& runtime) : r(runtime), rng_(runtime.options.seed, "gx::nccl_testing") {}

    Runtime& r;
    NcclOptions options{};
    NcclCounters counts{};
    std::deque<ncclComm> comms{};
    std::unordered_set<const void*> handles{};  ///< that were given out; the ended ones too
    std::map<std::string, std::shared_ptr<Join>> ids{};
    std::unordered_set<const void*> memory{};  ///< of ncclMemAlloc
    std::map<std::thread::id, int> open_groups{};
    int cliques = 0, registrations = 0;
    std::map<std::string, std::shared_ptr<Clique>> cliques_of_processes{};  ///< by key
    std::map<std::string, std::shared_ptr<Join>> joins_of_processes{};      ///< by key
    Runtime::Fault failing_init{};    ///< counts; the error is `init_error`
    Runtime::Fault killing_kernel{};  ///< counts
    ncclResult_t init_error = ncclSystemError;
    Runtime::Fault hanging_init{};
    Runtime::Fault refusing_init{};  ///< counts; the error is `refused_with`
    ncclResult_t refused_with = ncclInvalidUsage;
    std::string reason{};           ///< of what the call returns, where it is known
    std::string last_error{};       ///< of all communicators
    std::set<int> hanging_parts{};  ///< devices
    std::set<std::pair<int, int>> unreachable{};

    // ---- Communicators (communicators.cpp) ----
    /// The live communicator of a handle, or a misuse.
    ncclComm& comm_of(ncclComm_t handle, const std::string& call);
    /// The same, and it can be given work: joined, not finalized, not in progress.
    ncclComm& ready_comm(ncclComm_t handle, const std::string& call);
    ncclComm& make_comm(const std::string& name, int device, const ncclConfig_t* config,
                        const ncclComm* parent);
    /// Takes part; completes the join where it is the last.
    void join(ncclComm* comm, const std::shared_ptr<Join>& j, Join::Rank rank);
    void take_part(Join& j, const Join::Rank& rank);
    /// The host waits until the communicator is joined, or has failed.
    ncclResult_t await(ncclComm& comm, ncclComm_t* handle, const std::string& call);
    /// The host waits until the communicator's work is done, without learning so.
    void flush(ncclComm& comm, const std::string& call);
    /// A poll of what is in progress: it stays so, or is in state `next`.
    static void get_on(ncclComm& comm, ncclComm::State next, ncclResult_t& error);
    void end(ncclComm& comm, const std::string& call);
    /// It has this asynchronous error from now on.
    void fail(ncclComm& comm, ncclResult_t error, const std::string& reason_of_it);
    /// Polls until what a non-blocking communicator was given is done.
    [[nodiscard]] int draw_polls() {
        return static_cast<int>(draw(static_cast<std::uint64_t>(options.polls_max) + 1));
    }

    // ---- Groups (groups.cpp) ----
    [[nodiscard]] Group& group();
    /// Checks a call and adds it to the thread's group, or launches it.
    ncclResult_t add(const std::string& call, ncclComm_t handle, cudaStream_t stream, Part part);
    ncclResult_t close_group(const std::string& call);
    /// A thread begins to use it until release().
    void acquire(ncclComm& comm, const std::string& call);
    static void release(ncclComm& comm) { --comm.uses; }

    // ---- Kernels (kernels.cpp) ----
    void launch(ncclComm& comm, std::vector<Part> parts, const std::vector<CUstream_st*>& streams);
    void withdraw(ncclComm& comm);

    // ---- Other processes (processes.cpp) ----
    /// Tells the other ranks of the wire that this one takes part in a join.
    void open_wire(const std::shared_ptr<Join>& j, const std::string& id, int rank,
                   const std::string& call);
    void tell_join(const Join& j, const Join::Rank& rank);
    void tell_kernel(const Kernel& k);
    void tell_end(const ncclComm& c);
    bool take_messages() override;
    /// Whether ncclCommGetAsyncError says so to the peers of this rank.
    [[nodiscard]] bool has_died(const ncclComm& c);

    void work_dropped(int device) override;
    [[nodiscard]] std::string leaks() override;

    std::uint64_t draw(std::uint64_t n) { return rng_.below(draws_++, n); }

private:
    void complete(Join& j);
    void make_clique(std::vector<ncclComm*> members, const std::string& key, Join::Kind kind);
    [[nodiscard]] bool handle(const std::string& frame, const std::shared_ptr<Wire>& wire);
    [[nodiscard]] int bus_of(const ncclComm& c) const {
        return c.is_remote ? c.device : r.options.first_bus + c.device;
    }
    void fail_all(const Join& j, ncclResult_t error, const std::string& text);

    [[nodiscard]] bool may_arrive(const Kernel& k);
    void arrive(const std::shared_ptr<Kernel>& k);
    [[nodiscard]] bool has_met(const Kernel& k);
    void meet(Kernel& k);
    void finish(Kernel& k);
    void post_message(const Half& half);
    void post_collective(const Half& half);
    void match(const Half& send, const Half& receive);
    void combine(std::vector<Half>& parts, std::uint64_t number);
    [[nodiscard]] std::string awaited_by(const Kernel& k);
    [[nodiscard]] bool is_over(const ncclComm& c) const {
        return c.aborted || r.device_error(c.device) != cudaSuccess;
    }
    void expect_apart(const Kernel& k);

    void run_without_host(const std::stop_token& over);

    std::vector<std::shared_ptr<Wire>> wires_{};
    std::deque<std::pair<std::string, std::shared_ptr<Wire>>> frames_{};  ///< not handled yet
    std::map<int, ncclComm*> busy_{};  ///< devices that run a kernel
    Rng rng_;
    std::uint64_t draws_ = 0;
    std::uint64_t calls_ = 0;  ///< of the host
    std::jthread progress_{};  ///< with other processes
};

/// What the part reads and writes, in bytes.
[[nodiscard]] Use read_of(const Part& p, int ranks);
[[nodiscard]] Use write_of(const Part& p, int ranks);
[[nodiscard]] std::size_t bytes_of(ncclDataType_t type);
[[nodiscard]] std::string name_of(ncclDataType_t type);
[[nodiscard]] std::string name_of(ncclRedOp_t op);
/// "ncclSend".
[[nodiscard]] std::string name_of(Part::Kind kind);

/// Reduction element for element over equally long vectors. The rows are in an order that `draw`
/// chooses anew for each few elements. Errors: nullopt-like empty where the type cannot be summed
/// here.
[[nodiscard]] std::vector<std::byte> reduce(
    const std::vector<const std::vector<std::byte>*>& rows, ncclDataType_t type, ncclRedOp_t op,
    const std::function<std::uint64_t(std::uint64_t)>& draw);

/// NCCL's state beside the runtime's, made by the first call.
[[nodiscard]] Nccl& nccl_of(Runtime& r);

/// Runs a call's body under the runtime's lock. A misuse does not leave a call of a thread that
/// unwinds, nor one that frees behind an earlier misuse.
template <class F>
ncclResult_t nccl_call(const std::string& name, CallRules rules, F body) {
    const std::shared_ptr<Runtime> r = cuda_testing::the_runtime();
    const std::lock_guard lock(r->mutex);
    const cuda_testing::ClosesMemory closes(*r);
    const bool quiet = std::uncaught_exceptions() > 0 || (rules.frees && r->stopped);
    try {
        Nccl& n = nccl_of(*r);
        const bool may_run = cuda_testing::before_call(*r, name, rules) == cudaSuccess;
        const ncclResult_t result = may_run ? body(n) : ncclUnhandledCudaError;
        const std::string reason = std::exchange(n.reason, {});
        if (result != ncclSuccess && result != ncclInProgress)
            n.last_error = name + ": " + (reason.empty() ? ncclGetErrorString(result) : reason);
        r->wake();
        return result;
    } catch (const cuda_testing::Misuse&) {
        if (!quiet) throw;
        return rules.frees ? ncclSuccess : ncclInternalError;
    }
}

}  // namespace gx::nccl_testing
