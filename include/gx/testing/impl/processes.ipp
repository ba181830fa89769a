// One run of processes: fork, how the children ended, and the choice of the error to throw.
#pragma once

#include <signal.h>    // kill
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, _exit

#include <algorithm>  // max
#include <cerrno>     // EINTR
#include <cstdio>     // fflush
#include <cstring>    // strerror
#include <iostream>   // cout
#include <optional>   // a session, a mesh
#include <string>     // sentences

#include <gx/core/error.hpp>         // Error
#include <gx/testing/processes.hpp>  // Part

namespace gx::testing::detail::processes {

inline std::string sentence_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

GX_DECL void Part::fail() {
    const std::lock_guard lock(mutex);
    if (first_error) return;
    first_error = std::current_exception();
    session.fail(sentence_of(first_error));
}

GX_DECL void expect_deadline(std::chrono::nanoseconds deadline) {
    if (deadline.count() > 0) return;
    throw Error("deadline is " + std::to_string(deadline.count()) +
                " ns: it ends every wait at once; give the longest time that a message may take");
}

inline coordination::Session::Options session_options(int rank, int ranks,
                                                      std::chrono::nanoseconds deadline) {
    // A busy machine may not run a process for a while that is well.
    const auto patience = std::max<std::chrono::nanoseconds>(deadline, std::chrono::seconds(10));
    return {.run_id = "processes",  // over sockets that nobody else has
            .rank = rank,
            .ranks = ranks,
            .join_deadline = patience,
            .silence = patience,
            .outlive_root = deadline};
}

/// Runs one rank; returns its first exception, and throws nothing. `mesh` stays: others may still
/// send to it. `shared`: memory of all ranks, nullptr where the system has none.
inline std::exception_ptr run_rank(coordination::Session& session, std::optional<Mesh>& mesh,
                                   Placement placement, std::vector<Descriptor> sockets,
                                   coordination::NodeMemory* shared,
                                   std::chrono::nanoseconds deadline, Moment begin,
                                   FunctionRef<void(Part&)> body) {
    std::exception_ptr error;
    try {
        if (shared != nullptr) shared->be(session.rank());
        mesh.emplace(placement, std::move(sockets), deadline, session, shared);
        Part part{.session = session, .mesh = *mesh, .begin = begin};
        try {
            session.join();
            body(part);
        } catch (...) {
            part.fail();
        }
        error = part.first_error;
        mesh->leave();
    } catch (...) {
        error = std::current_exception();
        session.fail(sentence_of(error));
    }
    return error;
}

/// The whole life of a child: it leaves by _exit, so nothing that the root has opened is flushed
/// or destroyed twice.
[[noreturn]] inline void live(int rank, Placement placement, Descriptor to_root,
                              std::vector<Descriptor> sockets, coordination::NodeMemory* shared,
                              std::chrono::nanoseconds deadline, Moment begin,
                              FunctionRef<void(Part&)> body) noexcept {
    coordination::Session session(session_options(rank, placement.ranks(), deadline),
                                  std::move(to_root));
    std::optional<Mesh> mesh;
    (void)run_rank(session, mesh, placement, std::move(sockets), shared, deadline, begin, body);
    std::cout.flush();
    std::fflush(stdout);
    session.leave();
    (void)session.end(coordination::Duration::max());
    ::_exit(session.exit_status());
}

// ---- The root ---------------------------------------------------------------------------

/// The children of a run; those that are left are killed and reaped with it.
class Children {
public:
    Children() = default;
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    ~Children() {
        for (const auto& [rank, process] : all_) {
            ::kill(process, SIGKILL);
            (void)reap(process);
        }
    }

    void add(int rank, pid_t process) { all_[rank] = process; }
    /// In a child: these are the root's.
    void forget() { all_.clear(); }

    /// Waits until every child has left or ended, and kills those that are late. Returns how those
    /// ended that have not left, by rank.
    std::map<int, std::string> end(coordination::Session& session,
                                   std::chrono::nanoseconds deadline) {
        std::map<int, std::string> deaths;
        if (!session.end(deadline)) {
            for (const int r : session.running()) {
                ::kill(all_.at(r), SIGKILL);
                deaths[r] = " had not returned within the deadline and was killed";
            }
        }
        if (!session.end(deadline))
            for (const auto& [rank, process] : all_) ::kill(process, SIGKILL);
        for (const auto& [rank, process] : std::exchange(all_, {})) {
            const int status = reap(process);
            if (deaths.contains(rank)) continue;
            if (WIFSIGNALED(status))
                deaths[rank] = " was killed by signal " + std::to_string(WTERMSIG(status));
            else if (!session.left(rank))
                deaths[rank] = " ended with exit status " + std::to_string(WEXITSTATUS(status)) +
                               " before its function returned";
        }
        return deaths;
    }

private:
    static int reap(pid_t process) {
        int status = 0;
        while (::waitpid(process, &status, 0) < 0 && errno == EINTR) {
        }
        return status;
    }

    std::map<int, pid_t> all_{};
};

/// Throws the first error of a run, if there is one. `own`: of rank 0.
inline void throw_first(coordination::Session& session, const std::exception_ptr& own,
                        const std::map<int, std::string>& deaths) {
    using coordination::Reason;
    const coordination::Cause cause = session.cause();
    const auto error_of = [&](int rank) { return session.error_of(rank); };
    const auto throw_of = [&](int rank) {
        if (rank == 0 && own) std::rethrow_exception(own);
        throw Error(error_of(rank));
    };
    const bool by_wait = cause.reason == Reason::late || cause.reason == Reason::silent;
    auto died = deaths.find(cause.rank);
    if (died == deaths.end() && (by_wait || !cause.stopped())) died = deaths.begin();
    if (died != deaths.end()) {
        std::string text = "rank " + std::to_string(died->first) + died->second;
        if (!cause.stopped()) throw Error(text + "; see what it wrote to stderr");
        const std::string seen = error_of(cause.observer);
        throw Error(text + ". The first to notice: " + (seen.empty() ? cause.text : seen));
    }
    const bool threw = cause.reason == Reason::error || cause.reason == Reason::late;
    if (threw && !error_of(cause.observer).empty()) throw_of(cause.observer);
    if (cause.reason == Reason::mismatch || cause.reason == Reason::absent) throw Error(cause.text);
    for (int r = 0; r < session.ranks(); ++r)
        if (!error_of(r).empty()) throw_of(r);
    if (own) std::rethrow_exception(own);
}

GX_DECL void run(Placement placement, std::chrono::nanoseconds deadline,
                 FunctionRef<void(Part&)> body) {
    const int ranks = placement.ranks();
    const auto n = static_cast<std::size_t>(ranks);
    const Moment begin = std::chrono::steady_clock::now();
    std::vector<std::vector<Descriptor>> mesh(n);  // [rank][peer]
    for (auto& row : mesh) row.resize(n);
    for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = a + 1; b < n; ++b)
            std::tie(mesh[a][b], mesh[b][a]) = coordination::socket_pair();
    const auto shared = coordination::NodeMemory::for_children(ranks);
    std::cout.flush();
    std::fflush(stdout);
    Children children;
    std::vector<Descriptor> members(n);
    for (int r = 1; r < ranks; ++r) {
        auto [root, child] = coordination::socket_pair();
        const pid_t process = ::fork();
        if (process < 0)
            throw Error("rank " + std::to_string(r) + " of " + std::to_string(ranks) +
                        " can't be started: " + std::strerror(errno) +
                        "; raise the limit of processes (ulimit -u) or use fewer ranks");
        if (process == 0) {
            std::vector<Descriptor> mine = std::move(mesh[static_cast<std::size_t>(r)]);
            mesh.clear();
            members.clear();
            children.forget();
            root.close();
            live(r, placement, std::move(child), std::move(mine), shared.get(), deadline, begin,
                 body);
        }
        children.add(r, process);
        members[static_cast<std::size_t>(r)] = std::move(root);
    }
    std::vector<Descriptor> mine = std::move(mesh[0]);
    mesh.clear();
    coordination::Session session(session_options(0, ranks, deadline), std::move(members));
    std::exception_ptr own;
    std::map<int, std::string> deaths;
    {
        std::optional<Mesh> mail;
        own = run_rank(session, mail, placement, std::move(mine), shared.get(), deadline, begin,
                       body);
        session.leave();
        deaths = children.end(session, deadline);
    }
    throw_first(session, own, deaths);
}

}  // namespace gx::testing::detail::processes
