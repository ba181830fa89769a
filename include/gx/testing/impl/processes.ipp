// Forked: fork, hand-over of sockets, how children ended, and which error to throw.
#pragma once

#include <poll.h>        // poll
#include <signal.h>      // kill
#include <sys/socket.h>  // sendmsg
#include <sys/wait.h>    // waitpid
#include <unistd.h>      // fork, _exit

#include <algorithm>  // find, max
#include <array>      // a message
#include <cerrno>     // EINTR
#include <cstdio>     // fflush
#include <cstring>    // memcpy, strerror
#include <iostream>   // cout

#include <gx/core/detail/patience.hpp>  // Patience
#include <gx/core/error.hpp>            // Error, LostRank, DeviceLost
#include <gx/testing/processes.hpp>     // Forked
#include <gx/threads/threads.hpp>       // placement_of

namespace gx::testing::detail::processes {

using coordination::Duration;
using coordination::saturating_sum;
using coordination::Session;
using coordination::steady_now;

GX_DECL void expect_deadline(std::chrono::nanoseconds deadline) {
    if (deadline.count() > 0) return;
    throw Error("deadline is " + std::to_string(deadline.count()) +
                " ns: it ends every wait at once; give the longest time that a message may take");
}

// ---- Lines: packets between the root and a child ----------------------------------------

inline std::pair<Descriptor, Descriptor> line() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        throw Error(std::string("a pair of sockets can't be made: ") + std::strerror(errno) +
                    "; raise the limit of open files (ulimit -n) or use fewer ranks");
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// A list of numbers, and descriptors with it. The other end may be gone: it then has no effect.
inline void write_to(const Descriptor& line, std::span<const std::int64_t> numbers,
                     const std::vector<int>& descriptors = {}) {
    iovec bytes{.iov_base = const_cast<std::int64_t*>(numbers.data()),
                .iov_len = numbers.size_bytes()};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    const std::size_t size = descriptors.size() * sizeof(int);
    std::vector<char> control(CMSG_SPACE(size));
    if (size != 0) {
        message.msg_control = control.data();
        message.msg_controllen = control.size();
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(size);
        std::memcpy(CMSG_DATA(head), descriptors.data(), size);
    }
    while (::sendmsg(line.get(), &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
}

struct Packet {
    std::vector<std::int64_t> numbers{};  ///< none: the other end is gone, or late
    std::vector<Descriptor> descriptors{};
};
/// Waits for a packet. `ranks`: at most as many numbers and descriptors, and two.
inline Packet read_from(const Descriptor& line, int ranks, gx::detail::Patience& patience) {
    for (bool ready = false; !ready;) {
        pollfd p{.fd = line.get(), .events = POLLIN, .revents = 0};
        const Duration look = patience.next_look().time_since_epoch();
        ready = ::poll(&p, 1, coordination::milliseconds_until(look)) > 0;
        if (!ready && patience.ended()) return {};
    }
    const auto most = static_cast<std::size_t>(ranks) + 2;
    std::vector<std::int64_t> numbers(most);
    iovec bytes{.iov_base = numbers.data(), .iov_len = most * sizeof(numbers[0])};
    std::vector<char> control(CMSG_SPACE(most * sizeof(int)));
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t n = -1;
    while ((n = ::recvmsg(line.get(), &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (n <= 0) return {};
    Packet packet;
    numbers.resize(static_cast<std::size_t>(n) / sizeof(numbers[0]));
    packet.numbers = std::move(numbers);
    if (const cmsghdr* const head = CMSG_FIRSTHDR(&message)) {
        std::vector<int> all((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        std::memcpy(all.data(), CMSG_DATA(head), all.size() * sizeof(int));
        for (const int one : all) packet.descriptors.emplace_back(one);
    }
    return packet;
}

inline int wait_for(int process) {
    int status = 0;
    while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}
inline std::string death_of(int status) {
    if (WIFSIGNALED(status)) return " was killed by signal " + std::to_string(WTERMSIG(status));
    return " ended with exit status " + std::to_string(WEXITSTATUS(status));
}

// ---- A run --------------------------------------------------------------------------------

/// A busy machine may not run a process for a while that is well.
inline Duration patience_with(Duration deadline) {
    return std::max<Duration>(deadline, std::chrono::seconds(10));
}

GX_DECL std::unique_ptr<Session> Forked::session_over(Sockets& sockets) const {
    const Duration patience = patience_with(deadline_);
    Session::Options options{.run_id = "processes",  // over sockets of this session alone
                             .rank = rank_,
                             .ranks = placement_.ranks(),
                             .join_deadline = patience,
                             .silence = patience,
                             .outlive_root = deadline_,
                             .regroups = true};
    if (rank_ != 0)
        return std::make_unique<Session>(std::move(options), std::move(sockets.to_root));
    return std::make_unique<Session>(std::move(options), std::move(sockets.members));
}

GX_DECL Ended Forked::run(FunctionRef<void(Part&)> body) {
    if (session_ && !regrouped_) {  // no rank was lost, or agree() was not called
        session_->part(deadline_);
        session_.reset();
    }
    Sockets sockets = sockets_of_run();
    const bool forked_now = memory_ != nullptr;
    std::unique_ptr<coordination::NodeMemory> memory = std::exchange(memory_, nullptr);
    if (!std::exchange(regrouped_, false)) session_ = session_over(sockets);
    Session* const session = session_.get();
    Ended out;
    std::optional<Mesh> mesh;  // stays until all have ended: others may still send to it
    try {
        (void)session->join();
        if (forked_now) memory->be(rank_);
        else memory = coordination::NodeMemory::join(*session, deadline_);
        mesh.emplace(placement_, std::move(sockets.peers), deadline_, *session, memory.get());
        out.joined = true;
        Part part{{*session, sockets.begin}, *mesh};
        try {
            body(part);
        } catch (...) {
            part.fail();
        }
        out.own = part.first_error;
        mesh->leave();
    } catch (...) {
        out.own = std::current_exception();
        session->fail(coordination::sentence_of(out.own));
    }
    if (rank_ != 0) {
        std::cout.flush();
        std::fflush(stdout);
    }
    session->leave();
    if (rank_ == 0) out.deaths = end(*session);
    else (void)session->end(Duration::max());
    out.cause = session->cause();
    device_lost_ = coordination::is_device_lost(out.own);
    out.sentence = session->sentence();
    out.exit_status = exit_status_ = session->exit_status();
    if (rank_ == 0)
        for (int r = 0; r < placement_.ranks(); ++r) out.errors.push_back(session->error_of(r));
    return out;
}

GX_DECL void Forked::run_or_throw(FunctionRef<void(Part&)> body) {
    const Ended ended = run(body);
    coordination::throw_loss(*session_, ended.own, ended.joined);
    if (rank_ == 0) return throw_first(ended);
    coordination::throw_first(*session_, ended.own);
}

// Waits until every child has left or ended, and kills those that are late. Returns how those ended
// that have not left, by rank.
GX_DECL std::map<int, std::string> Forked::end(Session& session) {
    std::map<int, std::string> deaths;
    if (!session.end(deadline_)) {
        for (const int r : session.running()) {
            if (r == 0 || !children_.contains(r)) continue;
            ::kill(children_.at(r).process, SIGKILL);
            deaths[r] = " had not returned within the deadline and was killed";
        }
        if (!session.end(deadline_))
            for (const int r : session.connected())
                if (children_.contains(r)) ::kill(children_.at(r).process, SIGKILL);
    }
    for (auto next = children_.begin(); next != children_.end();) {
        const auto one = next++;
        if (session.left(one->first)) continue;
        ::kill(one->second.process, SIGKILL);  // if it hasn't ended: its connection has
        const int status = wait_for(one->second.process);
        deaths.try_emplace(
            one->first,
            death_of(status) + (WIFEXITED(status) ? " before its function returned" : ""));
        children_.erase(one);
    }
    return deaths;
}

GX_DECL std::map<int, std::string> Forked::reap(bool ends_well) {
    std::map<int, std::string> deaths;
    first_.reset();  // of a run that did not begin
    for (const auto& [rank, child] : children_) (void)::shutdown(child.line.get(), SHUT_WR);
    gx::detail::Patience patience(deadline_);
    for (auto& [rank, child] : std::exchange(children_, {})) {
        while (!read_from(child.line, placement_.ranks(), patience).numbers.empty()) {
        }
        pollfd p{.fd = child.line.get(), .events = 0, .revents = 0};
        if (::poll(&p, 1, 0) == 0) ::kill(child.process, SIGKILL);  // it has not hung up
        const int status = wait_for(child.process);
        if (WIFSIGNALED(status) || (ends_well && status != 0)) deaths[rank] = death_of(status);
    }
    return deaths;
}

GX_DECL Forked::~Forked() { (void)reap(false); }

GX_DECL void throw_first(const Ended& ended) {
    using coordination::Reason;
    const coordination::Cause& cause = ended.cause;
    const auto error_of = [&](int rank) -> const std::string& {
        static const std::string none;
        return rank < 0 ? none : ended.errors[static_cast<std::size_t>(rank)];
    };
    const auto throw_of = [&](int rank) {
        if (rank == 0 && ended.own) std::rethrow_exception(ended.own);
        throw Error(error_of(rank));
    };
    const bool by_wait = cause.reason == Reason::late || cause.reason == Reason::silent;
    auto died = ended.deaths.find(cause.rank);
    if (died == ended.deaths.end() && (by_wait || !cause.stopped())) died = ended.deaths.begin();
    if (died != ended.deaths.end()) {
        std::string text = "rank " + std::to_string(died->first) + died->second;
        if (!cause.stopped()) throw Error(text + "; see what it wrote to stderr");
        const std::string seen = error_of(cause.observer);
        throw Error(text + ". The first to notice: " + (seen.empty() ? cause.text : seen));
    }
    const bool threw = cause.reason == Reason::error || cause.reason == Reason::late;
    if (threw && !error_of(cause.observer).empty()) throw_of(cause.observer);
    if (cause.reason == Reason::mismatch || cause.reason == Reason::absent) throw Error(cause.text);
    for (int r = 0; r < static_cast<int>(ended.errors.size()); ++r)
        if (!error_of(r).empty()) throw_of(r);
    if (ended.own) std::rethrow_exception(ended.own);
}

// ---- Sockets of a run ---------------------------------------------------------------------

/// Sockets between all ranks: [rank][peer].
inline std::vector<std::vector<Descriptor>> connected(std::size_t n) {
    std::vector<std::vector<Descriptor>> mesh(n);
    for (auto& row : mesh) row.resize(n);
    for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = a + 1; b < n; ++b)
            std::tie(mesh[a][b], mesh[b][a]) = coordination::socket_pair();
    return mesh;
}

GX_DECL auto Forked::sockets_of_run() -> Sockets {
    if (first_) {
        Sockets out = std::move(*first_);
        first_.reset();
        return out;
    }
    return rank_ == 0 ? hand_out() : receive();
}

// The packet to a child: when the run begins; its socket to the root's session, where that is new,
// and those to all other ranks in their order. A child that is gone is missed by the session.
GX_DECL auto Forked::hand_out() -> Sockets {
    const auto n = static_cast<std::size_t>(placement_.ranks());
    Sockets mine{.members = std::vector<Descriptor>(n), .begin = std::chrono::steady_clock::now()};
    auto mesh = connected(n);
    const std::int64_t begin = mine.begin.time_since_epoch().count();
    for (auto& [rank, child] : children_) {
        const auto r = static_cast<std::size_t>(rank);
        Descriptor root, its;
        if (!session_) std::tie(root, its) = coordination::socket_pair();
        std::vector<int> descriptors;
        if (its) descriptors.push_back(its.get());
        for (std::size_t peer = 0; peer < n; ++peer)
            if (peer != r) descriptors.push_back(mesh[r][peer].get());
        write_to(child.line, std::span(&begin, 1), descriptors);
        mine.members[r] = std::move(root);
    }
    mine.peers = std::move(mesh[0]);
    return mine;
}

GX_DECL auto Forked::receive() -> Sockets {
    const int ranks = placement_.ranks();
    gx::detail::Patience endless(Duration::max());
    Packet packet = read_from(line_, ranks, endless);
    const std::size_t first = session_ ? 0 : 1;
    if (packet.numbers.size() != 1 ||
        packet.descriptors.size() + 1 != static_cast<std::size_t>(ranks) + first)
        throw Error("rank " + std::to_string(rank_) +
                    " waits for another run, and rank 0 has ended: look at its error");
    Sockets mine{.peers = std::vector<Descriptor>(static_cast<std::size_t>(ranks)),
                 .begin = Moment(Moment::duration(packet.numbers[0]))};
    if (!session_) mine.to_root = std::move(packet.descriptors[0]);
    for (std::size_t peer = 0, i = first; peer < mine.peers.size(); ++peer)
        if (peer != static_cast<std::size_t>(rank_))
            mine.peers[peer] = std::move(packet.descriptors[i++]);
    return mine;
}

// ---- Who is left --------------------------------------------------------------------------

GX_DECL std::pair<std::vector<int>, std::int64_t> Forked::agree(std::int64_t number) {
    const auto leave_out = [](const Child& child) {
        ::kill(child.process, SIGKILL);
        (void)wait_for(child.process);
    };
    coordination::Regrouped left;
    Duration limit = deadline_;
    // The root may end its run later, then waits for the others, and may be on a busy machine.
    if (rank_ != 0)
        limit = saturating_sum(saturating_sum(limit, deadline_), patience_with(deadline_));
    if (session_ && !device_lost_) left = session_->regroup(number, limit);
    if (left.members.empty()) {
        if (session_) session_->part(deadline_);
        line_.close();
        return {};
    }
    std::map<int, Child> children;
    for (auto& [rank, child] : std::exchange(children_, {})) {
        const auto found = std::ranges::find(left.members, rank);
        if (found == left.members.end()) leave_out(child);
        else children[int(found - left.members.begin())] = std::move(child);
    }
    children_ = std::move(children);
    placement_ = gx::detail::threads::placement_of(placement_, left.members);
    rank_ = session_->rank();
    regrouped_ = true;
    exit_status_ = 0;  // an error from here on is of no run that the root knows
    return {std::move(left.members), left.number};
}

// ---- Fork ---------------------------------------------------------------------------------

/// The whole life of a child: it leaves by _exit, so nothing that the root has opened is flushed
/// or destroyed twice.
GX_DECL void Forked::live(FunctionRef<void(Forked&)> body) noexcept {
    try {
        body(*this);
    } catch (...) {
        if (exit_status_ == 0) {  // else it is of a run, and the root has it
            std::cerr << "rank " + std::to_string(rank_) + ": " +
                             coordination::sentence_of(std::current_exception()) + "\n";
            exit_status_ = 1;
        }
    }
    std::cout.flush();
    std::fflush(stdout);
    ::_exit(exit_status_);
}

GX_DECL void Forked::in_each(Placement placement, std::chrono::nanoseconds deadline,
                             FunctionRef<void(Forked&)> body) {
    const int ranks = placement.ranks();
    const auto n = static_cast<std::size_t>(ranks);
    const Moment begin = std::chrono::steady_clock::now();
    auto mesh = connected(n);
    auto memory = coordination::NodeMemory::for_children(ranks);
    std::cout.flush();
    std::fflush(stdout);
    Forked here(0, placement, deadline);
    Sockets mine{.members = std::vector<Descriptor>(n), .begin = begin};
    for (int r = 1; r < ranks; ++r) {
        auto [root, child] = coordination::socket_pair();
        auto [to_child, to_root] = line();
        const pid_t process = ::fork();
        if (process < 0)
            throw Error("rank " + std::to_string(r) + " of " + std::to_string(ranks) +
                        " can't be started: " + std::strerror(errno) +
                        "; raise the limit of processes (ulimit -u) or use fewer ranks");
        if (process == 0) {
            here.rank_ = r;
            here.children_.clear();  // they are the root's
            here.line_ = std::move(to_root);
            here.memory_ = std::move(memory);
            here.first_ = Sockets{.to_root = std::move(child),
                                  .peers = std::move(mesh[static_cast<std::size_t>(r)]),
                                  .begin = begin};
            mesh.clear();
            mine = {};
            root.close();
            to_child.close();
            here.live(body);
        }
        here.children_[r] = {process, std::move(to_child)};
        mine.members[static_cast<std::size_t>(r)] = std::move(root);
    }
    mine.peers = std::move(mesh[0]);
    mesh.clear();
    here.memory_ = std::move(memory);
    here.first_ = std::move(mine);
    body(here);
    const auto deaths = here.reap(true);
    if (!deaths.empty())
        throw Error("rank " + std::to_string(deaths.begin()->first) + deaths.begin()->second +
                    "; see what it wrote to stderr");
}

}  // namespace gx::testing::detail::processes
