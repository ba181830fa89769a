// Job: rendezvous over MPI, nodes, cores, and runs.
#pragma once

#include <arpa/inet.h>   // inet_ntop
#include <ifaddrs.h>     // getifaddrs
#include <net/if.h>      // IFF_UP
#include <netinet/in.h>  // sockaddr_in

#include <algorithm>  // count, max
#include <array>      // records of fixed size
#include <cstdio>     // fputs
#include <cstdlib>    // getenv
#include <cstring>    // memcpy
#include <exception>  // uncaught_exceptions
#include <map>        // ranks of a host
#include <numeric>    // iota
#include <optional>   // a listener
#include <random>     // run ids
#include <sstream>    // addresses
#include <thread>     // a pause, jobs that end side by side
#include <utility>    // move

#include <gx/coordination/process_cores.hpp>  // affinity_mask
#include <gx/coordination/socket.hpp>         // Listener, connect_to, host_name
#include <gx/core/error.hpp>                  // Error
#include <gx/mpi/guard.hpp>                   // Guard, CallLimit
#include <gx/mpi/job.hpp>                     // the declarations
#include <gx/mpi/library.hpp>                 // start_library, transport_name

namespace gx::mpi {

namespace detail::job {

using coordination::Duration;
using coordination::Session;

/// What a rank is about to do, between runs: to run; to leave, and to meet the others again at its
/// exit; to leave for good, as one does where the program itself ends MPI; to exit.
inline constexpr const char *runs = "run", *leaves = "leave", *leaves_for_good = "leave for good",
                            *exits = "exit";

/// Tests before the first pause. With a core for each rank: some microseconds, as a message of
/// 64 KiB takes. Else a few, since some MPIs yield in a test themselves.
inline constexpr int tests_alone = 200, tests_crowded = 20;

/// Until the process ends: launchers end a job as soon as one of its processes has, and the program
/// still has to say what it knows.
inline void keep(std::unique_ptr<Session> session, std::unique_ptr<Guard> guard) {
    static auto* const kept =
        new std::vector<std::pair<std::unique_ptr<Session>, std::unique_ptr<Guard>>>();
    kept->emplace_back(std::move(session), std::move(guard));
}

/// A session behind its last run, in which the ranks of a job meet where it ends.
struct LastMeeting {
    std::unique_ptr<Session> session{};
    std::string id{};  ///< the same on all ranks
    int rank = 0;
    Duration deadline{}, patience{};

    /// Ends it in order: all ranks do.
    void end() {
        session->leave();
        (void)session->end(rank == 0 ? deadline : Duration::max());
        session.reset();
    }
    /// Returns what `meet` does, a gather() of the session. Where that is false or throws, some
    /// ranks have not come: the session ends too, and stays until the process does.
    bool hold(FunctionRef<bool(Session&)> meet) {
        std::unique_ptr<Guard> guard;
        bool all = false;
        try {
            guard = std::make_unique<Guard>(*session, patience);
            guard->returned();
            session->on_change([&] { guard->hear(); });
        } catch (const Error&) {  // no thread is left: without it
        }
        try {
            all = meet(*session);
        } catch (const std::exception& e) {
            const auto reason = session->cause().reason;
            if (reason == coordination::Reason::lost || reason == coordination::Reason::silent)
                std::fputs((std::string("gx: ") + e.what() + "\n").c_str(), stderr);
        }
        if (!all) {
            session->leave();
            (void)session->end(rank == 0 ? deadline : Duration::max());
        }
        session->on_change({});
        if (!all) job::keep(std::move(session), std::move(guard));
        return all;
    }
};

/// How the jobs of this process end, where gx has initialised MPI.
///
/// MPI_Finalize waits for all ranks, whatever has become of them. So a session of all of them
/// outlives its job, until all processes are at their exit. A job that is alive then, as in a
/// process that calls exit(), ends first; one whose run has not returned is left open, and the
/// others see a lost rank.
class Ends {
public:
    void add(Job* job) {
        const std::lock_guard lock(mutex_);
        living_.push_back(job);
    }
    void remove(Job* job) {
        const std::lock_guard lock(mutex_);
        std::erase(living_, job);
    }
    /// Of several the one of the least id: jobs of several threads may end in any order. The others
    /// end without the lock, as other ranks may end them in another one.
    void keep(LastMeeting& meeting) {
        std::optional<LastMeeting> over;
        {
            const std::lock_guard lock(mutex_);
            if (last_ && last_->id < meeting.id) {
                over = std::move(meeting);
            } else {
                over = std::exchange(last_, std::nullopt);
                last_ = std::move(meeting);
            }
        }
        if (over) over->end();
    }
    /// At the exit of the process. Returns whether all ranks are there.
    [[nodiscard]] bool end_all() {
        std::vector<Job*> living;
        {
            const std::lock_guard lock(mutex_);
            living = living_;
        }
        // Within a run this rank is lost to the others, whatever other jobs it has. Else jobs end
        // side by side: those of other ranks may end in any order.
        std::vector<std::thread> leaving;
        if (std::ranges::any_of(living, &Job::runs)) leave_library_open();
        else
            for (Job* const job : living) {
                try {
                    leaving.emplace_back([job] { job->leave(); });
                } catch (const std::system_error&) {  // no thread is left: one by one
                    job->leave();
                }
            }
        for (std::thread& one : leaving) one.join();
        std::optional<LastMeeting> last;
        {
            const std::lock_guard lock(mutex_);
            last = std::exchange(last_, std::nullopt);
        }
        if (!last) return false;
        if (library::left_open) {
            (void)last->session.release();  // its end is that of the process: this rank is lost
            return false;
        }
        const bool all = last->hold([&](Session& session) {
            (void)session.gather(exits, Duration::max());
            return true;
        });
        if (all) last->end();
        else leave_library_open();
        return all;
    }

private:
    std::mutex mutex_{};
    std::vector<Job*> living_{};
    std::optional<LastMeeting> last_{};
};
inline Ends& ends() {
    static auto* const one = new Ends();
    return *one;
}

inline MPI_Comm checked(MPI_Comm communicator) {
    if (communicator == MPI_COMM_NULL)
        throw Error(
            "MPI_COMM_NULL has no processes: only the members of a communicator make its world "
            "(MPI_Comm_split gives MPI_COMM_NULL to ranks of color MPI_UNDEFINED)");
    int inter = 0;
    in_library([&] { expect(MPI_Comm_test_inter(communicator, &inter), "MPI_Comm_test_inter"); });
    if (inter != 0)
        throw Error(
            "an intercommunicator has two groups of ranks, and a world one: give what "
            "MPI_Intercomm_merge makes of it");
    return communicator;
}

inline JobOptions checked(JobOptions options) {
    const auto check = [](const char* name, std::chrono::nanoseconds& value) {
        if (value.count() <= 0)
            throw Error(std::string(name) + " is " + std::to_string(value.count()) +
                        " ns: it ends every wait at once; give the longest time that it may take");
        constexpr std::chrono::hours year(24 * 365);  // now and it make a time, 4 of it a duration
        value = std::min<std::chrono::nanoseconds>(value, year);
    };
    check("deadline", options.deadline);
    check("join_deadline", options.join_deadline);
    check("patience", options.patience);
    const int level = options.thread_level;
    if (level != MPI_THREAD_FUNNELED && level != MPI_THREAD_SERIALIZED &&
        level != MPI_THREAD_MULTIPLE)
        throw Error("thread_level is " + std::to_string(level) +
                    ": give MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED or MPI_THREAD_MULTIPLE");
    constexpr std::size_t most = std::size_t{1} << 30;
    if (options.piece_bytes == 0 || options.piece_bytes > most)
        throw Error("piece_bytes is " + std::to_string(options.piece_bytes) + ": give 1 to " +
                    std::to_string(most));
    return options;
}

/// A text of every rank, or of rank 0, in the fixed size that MPI moves.
using Text = std::array<char, 4096>;
inline Text text_of(const std::string& words) {
    Text text{};
    words.copy(text.data(), text.size() - 1);
    return text;
}

/// IP addresses of this machine's interfaces that others may reach, IPv4 first.
inline std::vector<std::string> own_addresses() {
    std::vector<std::string> four, six;
    ifaddrs* all = nullptr;
    if (::getifaddrs(&all) != 0) return {};
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0 ||
            (one->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        char text[INET6_ADDRSTRLEN] = {};
        if (one->ifa_addr->sa_family == AF_INET) {
            const auto* const a = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
            if (::inet_ntop(AF_INET, &a->sin_addr, text, sizeof(text)) != nullptr)
                four.emplace_back(text);
        } else if (one->ifa_addr->sa_family == AF_INET6) {
            const auto* const a = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
            if (!IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr) &&
                ::inet_ntop(AF_INET6, &a->sin6_addr, text, sizeof(text)) != nullptr)
                six.push_back("[" + std::string(text) + "]");
        }
    }
    ::freeifaddrs(all);
    four.insert(four.end(), six.begin(), six.end());
    return four;
}

/// Where rank 0 listens, and a space before each address that the others try.
inline std::string addresses_of(const coordination::Listener& listener,
                                const std::vector<std::string>& hosts) {
    const std::string port = listener.address().substr(listener.address().rfind(':'));
    std::string text;
    for (const std::string& host : hosts) {
        const bool bare = host.find(':') != host.npos && !host.starts_with('[');  // of IPv6
        text.append(bare ? " tcp:[" : " tcp:").append(host).append(bare ? "]" : "").append(port);
    }
    return text;
}

/// Connects to the first address that answers. One that is no address, or a host that is not
/// known, is tried again after a pause.
inline coordination::Descriptor connect_any(const std::vector<std::string>& addresses,
                                            Duration limit) {
    const Duration end = coordination::steady_now() + limit;
    std::string last = "there is no address";
    for (std::size_t i = 0;; ++i) {
        const Duration left = end - coordination::steady_now();
        if (addresses.empty() || left.count() <= 0) throw Error(last);
        const bool only = addresses.size() == 1;
        try {
            return coordination::connect_to(
                addresses[i % addresses.size()],
                only ? left : std::min<Duration>(left, std::chrono::seconds(1)));
        } catch (const coordination::NoDescriptorLeft&) {
            throw;
        } catch (const Error& e) {
            last = e.what();
        }
        if (i % addresses.size() + 1 == addresses.size())
            std::this_thread::sleep_for(std::min<Duration>(left, std::chrono::milliseconds(100)));
    }
}

/// Whether two masks have a core in common.
inline bool overlap(const std::string& a, const std::string& b) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (a[i] == '1' && b[i] == '1') return true;
    return false;
}

/// Of the ranks that share memory with this one, as MPI sees it.
inline int lowest_rank_of_node(MPI_Comm job, int rank) {
    MPI_Comm node = MPI_COMM_NULL;
    expect(MPI_Comm_split_type(job, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node),
           "MPI_Comm_split_type");
    MPI_Group near = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    expect(MPI_Comm_group(node, &near), "MPI_Comm_group");
    expect(MPI_Comm_group(job, &all), "MPI_Comm_group");
    const int first = 0;
    int lowest = 0;
    expect(MPI_Group_translate_ranks(near, 1, &first, all, &lowest), "MPI_Group_translate_ranks");
    (void)MPI_Group_free(&near);
    (void)MPI_Group_free(&all);
    (void)MPI_Comm_free(&node);
    return lowest;
}

}  // namespace detail::job

GX_DECL Duplicate::Duplicate(MPI_Comm of, std::chrono::nanoseconds limit) {
    MPI_Request request = MPI_REQUEST_NULL;
    in_library([&] { expect(MPI_Comm_idup(of, &communicator_, &request), "MPI_Comm_idup"); });
    complete(request, "MPI_Comm_idup", limit);
    in_library([&] {
        expect(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN),
               "MPI_Comm_set_errhandler");
    });
}

GX_DECL Duplicate::~Duplicate() {
    int finalized = 0;
    (void)MPI_Finalized(&finalized);
    if (finalized == 0 && !left_ && !detail::library::left_open)
        in_library([&] { (void)MPI_Comm_free(&communicator_); });
}

// ---- Meeting ------------------------------------------------------------------------------------

GX_DECL Job::Job(JobOptions options, MPI_Comm communicator)
    : options_(detail::job::checked(std::move(options))),
      threading_(start_library(options_.thread_level, options_.join_deadline)),
      collectives_(detail::job::checked(communicator), options_.join_deadline) {
    for (int i = 0; i <= Messages::channels_that_tell_buckets; ++i)
        messages_.emplace_back(collectives_.get(), options_.join_deadline);
    int size = 0;
    in_library([&] {
        expect(MPI_Comm_rank(collectives_.get(), &rank_), "MPI_Comm_rank");
        expect(MPI_Comm_size(collectives_.get(), &size), "MPI_Comm_size");
    });
    hosts_.resize(static_cast<std::size_t>(size));
    in_library([&] { expect(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size"); });
    spans_all_ = ranks() == size;
    try {
        find_nodes();
        meet(options_.join_deadline);
        share_cores();
        share_memory();
    } catch (...) {
        leave_open();
        throw;
    }
    meeting_.reset();
    if (rank_ == 0 && options_.announce) {
        const WorldInfo i = info();
        std::string line = "gx: " + i.world;
        for (const std::string& note : i.notes) line += "; " + note;
        std::fputs((line + "\n").c_str(), stderr);
    }
    living_.emplace(this);
}

// Memory of the ranks of each machine, where machines have equally many, one after the other.
GX_DECL void Job::share_memory() {
    const Placement p = placement();
    if (!p.regular() || (p.machines > 1 && p.ranks_per_machine == 1)) return;
    std::vector<int> members(static_cast<std::size_t>(p.ranks_per_machine));
    std::iota(members.begin(), members.end(), p.node_of(rank_) * p.ranks_per_machine);
    shared_ = coordination::NodeMemory::join(*session_, options_.join_deadline, std::move(members));
}

// The node of a rank is the lowest rank that shares memory with it, as MPI sees it.
GX_DECL void Job::find_nodes() {
    int lowest = 0;
    {
        const CallLimit watch("MPI_Comm_split_type", options_.join_deadline);
        in_library([&] { lowest = detail::job::lowest_rank_of_node(collectives_.get(), rank_); });
    }

    using Name = std::array<char, 256>;
    Name mine{};
    (std::to_string(lowest) + " " + coordination::host_name()).copy(mine.data(), mine.size() - 1);
    std::vector<Name> names(hosts_.size());
    MPI_Request request = MPI_REQUEST_NULL;
    in_library([&] {
        expect(
            MPI_Iallgather(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, names.data(),
                           static_cast<int>(mine.size()), MPI_BYTE, collectives_.get(), &request),
            "MPI_Iallgather");
    });
    complete(request, "MPI_Iallgather", options_.join_deadline);
    std::vector<coordination::MemberInfo> members;
    for (std::size_t r = 0; r < names.size(); ++r) {
        const std::string name = names[r].data();
        hosts_[r] = name.substr(name.find(' ') + 1);
        members.push_back({.host = name});
    }
    roster_ = coordination::Roster(std::move(members));
}

// Rank 0 listens, and all others learn its addresses and the run's id over MPI.
GX_DECL void Job::meet(std::chrono::nanoseconds limit) {
    using namespace detail::job;
    const bool one_node = roster_.nodes() == 1 && options_.host.empty();
    std::optional<coordination::Listener> listener;
    Text text{};
    if (rank_ == 0) {
        try {
            std::random_device random;
            std::vector<std::string> hosts{one_node ? "127.0.0.1" : options_.host};
            if (hosts[0].empty()) hosts = own_addresses();
            listener.emplace("tcp:" + (one_node ? hosts[0] : coordination::every_host()) + ":0");
            text = text_of("mpi" + std::to_string(random()) + std::to_string(random()) + "." +
                           std::to_string(meetings_) + addresses_of(*listener, hosts));
        } catch (const Error& e) {
            text = text_of(std::string("!") + e.what());
        }
    }
    ++meetings_;
    MPI_Request request = MPI_REQUEST_NULL;
    in_library([&] {
        expect(MPI_Ibcast(text.data(), static_cast<int>(text.size()), MPI_BYTE, 0,
                          collectives_.get(), &request),
               "MPI_Ibcast");
    });
    complete(request, "MPI_Ibcast", limit);
    const std::string said = text.data();
    if (said.starts_with('!')) throw Error("rank 0 can't listen: " + said.substr(1));
    std::istringstream words(said);
    std::string run_id, word;
    words >> run_id;
    std::vector<std::string> addresses;
    while (words >> word) addresses.push_back(word);
    meeting_id_ = said;
    address_ = said.substr(run_id.size() + (said.size() > run_id.size() ? 1 : 0));
    Session::Options options{
        .run_id = run_id,
        .rank = rank_,
        .ranks = ranks(),
        .host = hosts_[static_cast<std::size_t>(rank_)],
        .join_deadline = limit,
        // A busy machine may not run a process for a while that is well.
        .silence = std::max<std::chrono::nanoseconds>(options_.deadline, std::chrono::seconds(10)),
        .operation = {meetings_ == 1 ? "no run: before the first" : "no run: after the last"}};
    if (rank_ == 0) {
        session_ = std::make_unique<Session>(
            std::move(options), std::vector<coordination::Descriptor>{}, std::move(listener));
    } else {
        coordination::Descriptor to_root;
        try {
            // Before rank 0 has waited as long: it knows no reason, and the launcher ends both.
            const Duration sooner = limit - std::min<Duration>(limit / 5, std::chrono::seconds(1));
            to_root = connect_any(addresses, sooner);
        } catch (const Error& e) {
            throw Error("rank " + std::to_string(rank_) + " on host " +
                        hosts_[static_cast<std::size_t>(rank_)] +
                        " does not reach rank 0 on host " + hosts_[0] + " at '" + address_ +
                        "': " + e.what() +
                        coordination::advice_on(
                            e,
                            "Let the hosts reach each other at all ports, or give the name of "
                            "rank 0's host as the option 'host'"));
        }
        session_ = std::make_unique<Session>(std::move(options), std::move(to_root));
    }
    try {
        (void)session_->join();
    } catch (...) {
        session_->leave();
        throw;
    }
}

GX_DECL void Job::share_cores() {
    using namespace detail::job;
    const auto masks = session_->gather(coordination::affinity_mask(), options_.join_deadline);
    const auto me = static_cast<std::size_t>(rank_);
    int sharing = 0;
    for (int r = 0; r < ranks(); ++r)
        sharing += roster_.node_of(r) == roster_.node_of(rank_) &&
                   overlap(masks[static_cast<std::size_t>(r)], masks[me]);
    const auto cores = static_cast<int>(std::ranges::count(masks[me], '1'));
    cores_ = std::max(1, cores / std::max(1, sharing));
    crowded_ = sharing > cores;
    core_share_ = coordination::CoreShare(cores_);
}

GX_DECL std::string Job::description() const {
    std::vector<int> counts(static_cast<std::size_t>(roster_.nodes()), 0);
    std::vector<std::string> names(counts.size());
    for (int r = 0; r < ranks(); ++r) {
        const auto node = static_cast<std::size_t>(roster_.node_of(r));
        ++counts[node];
        names[node] = hosts_[static_cast<std::size_t>(r)];
    }
    std::string text = std::to_string(ranks()) + (ranks() == 1 ? " rank on " : " ranks on ") +
                       std::to_string(names.size()) + (names.size() == 1 ? " host (" : " hosts (");
    for (std::size_t n = 0; n < names.size(); ++n)
        text += (n == 0 ? "" : ", ") + names[n] + ": " + std::to_string(counts[n]);
    return text + ")";
}

GX_DECL WorldInfo Job::info() const {
    WorldInfo info;
    info.world = "mpi::World";
    info.notes = {description(),
                  library_name() + " at thread level " + thread_level_name(threading_.level) +
                      ", messages by MPI_Isend and MPI_Irecv over " +
                      transport_name([](const char* name) { return std::getenv(name); }),
                  "rank " + std::to_string(rank_) + " has " + std::to_string(cores_) +
                      (cores_ == 1 ? " core" : " cores"),
                  "coordination at " + address_,
                  shared_ ? std::string(roster_.nodes() == 1 ? "ranks share memory"
                                                             : "ranks of a host share memory") +
                                ", on pages of " + coordination::NodeMemory::pages()
                          : "ranks share no memory: hosts have one rank each or unequal numbers, "
                            "ranks of a host do not follow one another, or the system has none to "
                            "share"};
    if (threading_.on_callers_alone)
        info.notes.emplace_back(
            "reductions on the rank's own thread, not beside the backward pass, as the program "
            "initialised MPI at thread level FUNNELED");
    else if (threading_.level == MPI_THREAD_FUNNELED)
        info.notes.emplace_back("MPI is called by the thread that initialised it");
    return info;
}

/// Waits until all ranks call run().
GX_DECL void Job::agree_to_run(coordination::Session& session, std::chrono::nanoseconds limit) {
    const auto all = session.gather(detail::job::runs, limit);
    const auto other =
        std::ranges::find_if(all, [](const std::string& one) { return one != detail::job::runs; });
    if (other == all.end()) return;
    const auto r = static_cast<std::size_t>(other - all.begin());
    throw Error("rank " + std::to_string(r) + " on host " + hosts_[r] +
                " left before run(): look at its own error. Every rank calls run() equally often");
}

GX_DECL Job::Living::Living(Job* job) : job_(job) {
    before_finalize([] { return detail::job::ends().end_all(); });
    detail::job::ends().add(job);
}
GX_DECL Job::Living::~Living() { detail::job::ends().remove(job_); }

GX_DECL void Job::leave_open() {
    failed_ = true;
    for (Duplicate& d : messages_) d.leave();
    collectives_.leave();
    leave_library_open();
}

// In order where all ranks do it. Other ranks may wait in run() for this one, or be lost.
GX_DECL void Job::leave() {
    using detail::job::LastMeeting;
    if (!session_ || session_->is_forked()) return;
    LastMeeting meeting{std::move(session_), meeting_id_, rank_, options_.deadline,
                        options_.patience};
    bool meets = finalizes_library() && spans_all_;  // at the exit
    std::optional<Alarm> alarm;  // where an exception ends the world, others may be anywhere
    try {
        if (std::uncaught_exceptions() > exceptions_)
            alarm.emplace(options_.patience, [where = "gx: rank " + std::to_string(rank_)] {
                detail::guard::write_all(
                    where +
                    " leaves a world by an exception, and waits for the other ranks to leave it: "
                    "its error follows once they have, or give up\n");
            });
    } catch (const Error&) {  // no thread is left: without that line
    }
    const bool ended = meeting.hold([&](coordination::Session& session) {
        namespace d = detail::job;
        const auto all = session.gather(meets ? d::leaves : d::leaves_for_good);
        meets = std::ranges::count(all, d::leaves) == ranks();
        return std::ranges::count(all, d::runs) == 0;
    });
    if (!ended) leave_open();
    else if (meets) detail::job::ends().keep(meeting);
    else meeting.end();
}
GX_DECL Job::~Job() { leave(); }

// ---- Running ------------------------------------------------------------------------------------

GX_DECL void Job::end_behind_cause(coordination::Session& session) const {
    session.leave();
    (void)session.end(rank_ == 0 ? 4 * options_.patience : coordination::Duration::max());
}

// Where there is none the others hear why.
GX_DECL std::unique_ptr<Guard> Job::guard_or_leave() {
    try {
        return std::make_unique<Guard>(*session_, options_.patience);
    } catch (const Error& e) {
        session_->fail(e.what());
        leave_open();
        end_behind_cause(*session_);
        detail::job::keep(std::move(session_), nullptr);
        throw;
    }
}

GX_DECL void Job::run(FunctionRef<void(JobRun&)> rank) {
    if (!unmet_.empty()) throw Error(unmet_);
    if (failed_)
        throw Error(
            "a rank of this world has failed, and MPI can't go on without it: end all "
            "processes, and resume from a checkpoint");
    expect_not_finalized("call run()");
    if (!session_)
        throw Error("run() of this world is called inside of its own run(): make another world");
    if (threading_.on_callers_alone) expect_main_thread();
    std::unique_ptr<coordination::Session> session;  // outlives its guard
    std::unique_ptr<Guard> guard = guard_or_leave();
    session = std::move(session_);
    std::exception_ptr own;
    {
        std::vector<MPI_Comm> communicators;
        for (const Duplicate& d : messages_) communicators.push_back(d.get());
        Messages messages(
            communicators, collectives_.get(), placement(), *session,
            {.deadline = options_.deadline,
             .piece_bytes = options_.piece_bytes,
             .tests_at_once = crowded_ ? detail::job::tests_crowded : detail::job::tests_alone},
            shared_.get());
        session->on_change([&] {
            messages.hear();
            guard->hear();
        });
        JobRun run{{.session = *session}, Transport(messages)};
        try {
            session->working_on({"waiting for each rank's run()"});
            agree_to_run(*session, options_.join_deadline);
            rank(run);
        } catch (...) {
            run.fail();
        }
        own = run.first_error;
        guard->returned();
        session->leave();
        constexpr std::chrono::milliseconds pause{1};
        while (!session->cause().stopped() && !session->end(pause)) messages.progress();
        session->on_change({});
        if (session->cause().stopped()) {
            leave_open();
            guard->hear();
            end_behind_cause(*session);
        }
    }
    if (!failed_) guard.reset();
    coordination::Session& mine = *session;
    if (failed_) detail::job::keep(std::move(session), std::move(guard));
    coordination::throw_first(mine, own);
    session.reset();  // the next one may need its descriptors
    meeting_.emplace("after a run");
    try {
        meet(options_.join_deadline);
    } catch (const Error& e) {  // all ranks have finished this run: it is the next that fails
        leave_open();
        unmet_ = e.what();
        std::fputs(("gx: rank " + std::to_string(rank_) +
                    " has finished its run, and can't begin another: " + unmet_ + "\n")
                       .c_str(),
                   stderr);
    }
    meeting_.reset();
}

}  // namespace gx::mpi
