// One run of processes: fork, reports to the root, and the choice of the error to throw.
#pragma once

#include <poll.h>        // poll
#include <signal.h>      // kill
#include <sys/socket.h>  // send, recv, shutdown
#include <sys/wait.h>    // waitpid
#include <unistd.h>      // fork, _exit

#include <algorithm>  // clamp, find_if
#include <cerrno>     // EINTR
#include <cstdio>     // fflush
#include <cstring>    // memcpy, strerror
#include <iostream>   // cout
#include <optional>   // a mesh
#include <string>     // sentences
#include <thread>     // the watch on the root

#include <gx/core/error.hpp>         // Error
#include <gx/testing/processes.hpp>  // Part

namespace gx::testing::detail::processes {

GX_DECL void Part::fail() {
    const std::lock_guard lock(mutex);
    if (!first_error) {
        first_error = std::current_exception();
        failed_at = std::chrono::steady_clock::now();
    }
    mesh.stop();
}

GX_DECL void expect_deadline(std::chrono::nanoseconds deadline) {
    if (deadline.count() > 0) return;
    throw Error("deadline is " + std::to_string(deadline.count()) +
                " ns: it ends every wait at once; give the longest time that a message may take");
}

/// How one rank's function ended, as its process saw it.
struct Ending {
    bool threw = false;
    Moment when{};  ///< when it threw
    Stop first_stop{};
    std::string text{};
    std::exception_ptr error{};  ///< of rank 0
    std::string death{};         ///< how the process ended, where it did not return

    [[nodiscard]] bool died() const { return !death.empty(); }
};

inline std::string sentence_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is no std::exception";
    }
}

/// Milliseconds until `end`, for poll(): rounded up, -1 for no limit.
inline int milliseconds_until(Moment end) {
    if (end == Moment::max()) return -1;
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
}
inline Moment after(std::chrono::nanoseconds deadline) {
    const Moment now = std::chrono::steady_clock::now();
    return deadline >= Moment::max() - now ? Moment::max() : now + deadline;
}

/// Runs one rank on `mesh`; throws nothing.
inline Ending run_rank(std::optional<Mesh>& mesh, int rank, Placement placement,
                       std::vector<Descriptor> sockets, std::chrono::nanoseconds deadline,
                       Moment begin, FunctionRef<void(Part&)> body) {
    Ending ending{.when = std::chrono::steady_clock::now()};
    try {
        mesh.emplace(rank, placement, std::move(sockets), deadline);
    } catch (...) {
        ending.threw = true;
        ending.error = std::current_exception();
        ending.text = sentence_of(ending.error);
        ending.first_stop = {rank, rank, ending.when};
        return ending;
    }
    Part part{.mesh = *mesh, .begin = begin};
    try {
        body(part);
    } catch (...) {
        part.fail();
    }
    mesh->leave();
    ending.first_stop = mesh->first_stop();
    ending.error = part.first_error;
    ending.threw = part.first_error != nullptr;
    ending.when = part.failed_at;
    if (ending.threw) ending.text = sentence_of(ending.error);
    return ending;
}

// ---- A child ----------------------------------------------------------------------------

/// What a child writes to the root, before its sentence.
struct ReportHeader {
    std::uint64_t text_bytes = 0;
    Moment when{};
    Stop first_stop{};
    bool threw = false;
};

inline void write_report(int control, const Ending& ending) {
    const ReportHeader header{ending.text.size(), ending.when, ending.first_stop, ending.threw};
    std::string bytes(sizeof(header), '\0');
    std::memcpy(bytes.data(), &header, sizeof(header));
    bytes += ending.text;
    for (std::size_t sent = 0; sent < bytes.size();) {
        const auto n = ::send(control, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;  // the root is gone
        sent += static_cast<std::size_t>(n);
    }
}

inline void wait_for_end_of(int control) {
    char none = 0;
    while (::recv(control, &none, 1, 0) < 0 && errno == EINTR) {
    }
}

/// The whole life of a child: it leaves by _exit, so nothing that the root has opened is flushed
/// or destroyed twice.
[[noreturn]] inline void live(int control, int rank, Placement placement,
                              std::vector<Descriptor> sockets, std::chrono::nanoseconds deadline,
                              Moment begin, FunctionRef<void(Part&)> body) noexcept {
    std::thread([control, deadline] {  // ends this rank once the root has died
        wait_for_end_of(control);
        const Moment end = after(deadline);
        while (std::chrono::steady_clock::now() < end) ::poll(nullptr, 0, milliseconds_until(end));
        ::_exit(1);
    })
        .detach();
    std::optional<Mesh> mesh;
    const Ending ending =
        run_rank(mesh, rank, placement, std::move(sockets), deadline, begin, body);
    std::cout.flush();
    std::fflush(stdout);
    write_report(control, ending);
    wait_for_end_of(control);  // the mesh stays: its end would be a lost rank
    ::_exit(0);
}

// ---- The root ---------------------------------------------------------------------------

/// The children of a run; those that are left are killed and reaped with it.
class Children {
public:
    struct Child {
        int rank = -1;
        pid_t process = -1;
        Descriptor control{};
        std::string read{};
        bool ended = false;  ///< its end of the control socket is closed
        Ending ending{};
        [[nodiscard]] bool reported() const {
            ReportHeader h;
            if (read.size() < sizeof(h)) return false;
            std::memcpy(&h, read.data(), sizeof(h));
            return read.size() >= sizeof(h) + h.text_bytes;
        }
    };

    Children() = default;
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;
    ~Children() {
        for (Child& c : all_) {
            if (c.process > 0) ::kill(c.process, SIGKILL);
            (void)reap(c);
        }
    }

    void add(int rank, pid_t process, Descriptor control) {
        all_.push_back({.rank = rank, .process = process, .control = std::move(control)});
    }
    /// In a child: these are the root's.
    void forget() { all_.clear(); }

    /// Waits until every child has reported or ended, then lets them end; kills those that are
    /// late. Returns how each rank ended, with that of rank 0 first.
    std::vector<Ending> collect(Ending first, std::chrono::nanoseconds deadline) {
        read_until(after(deadline), [](const Child& c) { return c.ended || c.reported(); });
        std::vector<Ending> endings{std::move(first)};
        std::vector<bool> late;
        for (Child& c : all_) {
            late.push_back(!c.ended && !c.reported());
            if (late.back()) ::kill(c.process, SIGKILL);
            ::shutdown(c.control.get(), SHUT_WR);
        }
        read_until(after(deadline), [](const Child& c) { return c.ended; });
        for (std::size_t i = 0; i < all_.size(); ++i) {
            Child& c = all_[i];
            if (!c.ended) ::kill(c.process, SIGKILL);
            const int status = reap(c);
            if (c.reported()) decode(c);
            if (late[i]) c.ending.death = " had not returned within the deadline and was killed";
            else if (c.ended) c.ending.death = death(status, c.reported());
            endings.push_back(std::move(c.ending));
        }
        return endings;
    }

private:
    template <class Done>
    void read_until(Moment end, Done done) {
        for (;;) {
            std::vector<pollfd> polled;
            std::vector<Child*> children;
            for (Child& c : all_) {
                if (done(c)) continue;
                polled.push_back({.fd = c.control.get(), .events = POLLIN, .revents = 0});
                children.push_back(&c);
            }
            if (polled.empty()) return;
            const int ready = ::poll(polled.data(), polled.size(), milliseconds_until(end));
            if (ready == 0 && std::chrono::steady_clock::now() >= end) return;
            for (std::size_t i = 0; i < polled.size(); ++i)
                if (polled[i].revents != 0) read(*children[i]);
        }
    }
    static void read(Child& c) {
        char bytes[4096];
        const auto n = ::recv(c.control.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n > 0) c.read.append(bytes, static_cast<std::size_t>(n));
        else if (n == 0 || (errno != EINTR && errno != EAGAIN)) c.ended = true;
    }
    static void decode(Child& c) {
        ReportHeader h;
        std::memcpy(&h, c.read.data(), sizeof(h));
        c.ending = {.threw = h.threw, .when = h.when, .first_stop = h.first_stop};
        c.ending.text = c.read.substr(sizeof(h), h.text_bytes);
    }
    static int reap(Child& c) {
        int status = 0;
        if (c.process > 0)
            while (::waitpid(c.process, &status, 0) < 0 && errno == EINTR) {
            }
        c.process = -1;
        return status;
    }
    static std::string death(int status, bool reported) {
        if (WIFSIGNALED(status)) return " was killed by signal " + std::to_string(WTERMSIG(status));
        if (reported) return "";
        return " ended with exit status " + std::to_string(WEXITSTATUS(status)) +
               " before its function returned";
    }

    std::vector<Child> all_{};
};

/// Throws the first error of a run, if there is one.
GX_DECL void throw_first(const std::vector<Ending>& endings) {
    Stop first;
    for (const Ending& e : endings)
        if (e.first_stop.before(first)) first = e.first_stop;
    const auto of = [&](int rank) -> const Ending& {
        return endings[static_cast<std::size_t>(rank)];
    };
    const auto died = std::ranges::find_if(endings, [](const Ending& e) { return e.died(); });
    const Ending* cause = nullptr;
    if (first.stopped()) {
        const Ending &failed = of(first.failed_rank), &stopper = of(first.stopper);
        const bool by_wait = first.failed_rank != first.stopper;
        if (failed.died() || (failed.threw && failed.when <= first.when)) cause = &failed;
        else if (by_wait && died != endings.end()) cause = &*died;  // its neighbour was blamed
        else if (stopper.threw) cause = &stopper;
    }
    if (!cause && died != endings.end()) cause = &*died;
    for (const Ending& e : endings)
        if (!cause && e.threw) cause = &e;
    if (!cause) return;
    if (cause->died()) {
        const auto rank = std::to_string(cause - endings.data());
        const bool seen = first.stopped() && of(first.stopper).threw;
        throw Error("rank " + rank + cause->death +
                    (seen ? ". The first to notice: " + of(first.stopper).text
                          : "; see what it wrote to stderr"));
    }
    if (cause->error) std::rethrow_exception(cause->error);
    throw Error(cause->text);
}

GX_DECL void run(Placement placement, std::chrono::nanoseconds deadline,
                 FunctionRef<void(Part&)> body) {
    const int ranks = placement.ranks();
    const auto n = static_cast<std::size_t>(ranks);
    const Moment begin = std::chrono::steady_clock::now();
    std::vector<std::vector<Descriptor>> mesh(n);  // [rank][peer]
    for (auto& row : mesh) row.resize(n);
    for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = a + 1; b < n; ++b) std::tie(mesh[a][b], mesh[b][a]) = socket_pair();
    std::cout.flush();
    std::fflush(stdout);
    Children children;
    for (int r = 1; r < ranks; ++r) {
        auto [root, child] = socket_pair();
        const pid_t process = ::fork();
        if (process < 0)
            throw Error("rank " + std::to_string(r) + " of " + std::to_string(ranks) +
                        " can't be started: " + std::strerror(errno) +
                        "; raise the limit of processes (ulimit -u) or use fewer ranks");
        if (process == 0) {
            std::vector<Descriptor> mine = std::move(mesh[static_cast<std::size_t>(r)]);
            mesh.clear();
            children.forget();
            root.close();
            live(child.get(), r, placement, std::move(mine), deadline, begin, body);
        }
        children.add(r, process, std::move(root));
    }
    std::vector<Descriptor> mine = std::move(mesh[0]);
    mesh.clear();
    std::vector<Ending> endings;
    {
        std::optional<Mesh> mail;
        Ending first = run_rank(mail, 0, placement, std::move(mine), deadline, begin, body);
        endings = children.collect(std::move(first), deadline);
    }
    throw_first(endings);
}

}  // namespace gx::testing::detail::processes
