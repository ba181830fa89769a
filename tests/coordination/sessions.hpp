// Sessions of one process for tests, and a session whose root is the test itself.
#pragma once

#include <sys/resource.h>  // limit of open files
#include <sys/socket.h>    // send, recv
#include <unistd.h>        // dup

#include <array>
#include <future>  // a change that is waited for
#include <memory>
#include <optional>
#include <string>
#include <tuple>  // tie
#include <vector>

#include <gtest/gtest.h>

#include <gx/coordination/session.hpp>

#include <coordination/text.hpp>  // has

namespace testing_support {

using namespace gx::coordination;
using namespace std::chrono_literals;

inline Session::Options options(int rank, int ranks) {
    return {.run_id = "run", .rank = rank, .ranks = ranks, .host = "h", .silence = Duration::max()};
}
/// Both ends of the connections of all ranks to rank 0, by rank.
struct Ends {
    explicit Ends(int ranks) : of_root(static_cast<std::size_t>(ranks)), of_others(of_root.size()) {
        for (std::size_t r = 1; r < of_root.size(); ++r)
            std::tie(of_root[r], of_others[r]) = socket_pair();
    }
    std::unique_ptr<Session> session(int rank, Session::Options o) {
        if (rank == 0) return std::make_unique<Session>(std::move(o), std::move(of_root));
        return std::make_unique<Session>(std::move(o),
                                         std::move(of_others[static_cast<std::size_t>(rank)]));
    }
    void close() { of_root.clear(), of_others.clear(); }

    std::vector<Descriptor> of_root, of_others;
};
/// Sessions of one process, joined by pairs of sockets.
struct Sessions {
    explicit Sessions(int ranks, void (*change)(Session::Options&) = [](Session::Options&) {}) {
        Ends ends(ranks);
        for (int r = 0; r < ranks; ++r) {
            auto o = options(r, ranks);
            change(o);
            all.push_back(ends.session(r, o));
        }
    }
    Session& operator[](std::size_t r) { return *all[r]; }
    std::vector<std::unique_ptr<Session>> all;
};
/// Waits until `holds()`, which becomes true by what the session hears.
template <class F>
void await(Session& session, F holds) {
    std::promise<void> done;
    bool told = false;
    session.on_change([&] {
        if (!told && holds()) told = true, done.set_value();
    });
    done.get_future().wait();
    session.on_change({});
}
inline Cause cause_of(Session& session) {
    await(session, [&] { return session.cause().stopped(); });
    return session.cause();
}

/// No descriptor can be opened while it lives.
class NoFreeDescriptor {
public:
    NoFreeDescriptor() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        Descriptor free(::dup(0));
        rlimit limit = before_;
        limit.rlim_cur = static_cast<rlim_t>(free.get());
        ::setrlimit(RLIMIT_NOFILE, &limit);
    }
    NoFreeDescriptor(const NoFreeDescriptor&) = delete;
    ~NoFreeDescriptor() { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
    rlimit before_{};
};

/// A session of rank 1; the test is its root.
struct Member1 {
    explicit Member1(int ranks) {
        auto [here, there] = socket_pair();
        root = std::move(here);
        session.emplace(options(1, ranks), std::move(there));
    }
    /// The next message of a kind.
    template <class M>
    M next() {
        for (std::array<std::byte, 4096> bytes;;) {
            while (const auto m = reader.next())
                if (const auto* wanted = std::get_if<M>(&*m)) return *wanted;
            if (!reader.problem().empty()) return {};
            const auto n = ::recv(root.get(), bytes.data(), bytes.size(), 0);
            if (n <= 0) return {};
            reader.feed(std::span(bytes).first(static_cast<std::size_t>(n)));
        }
    }
    std::vector<Wait> waits() {
        const auto question = encode(Waiting{});
        EXPECT_EQ(::send(root.get(), question.data(), question.size(), 0), std::ssize(question));
        return next<Waiting>().waits;
    }
    Descriptor root;
    MessageReader reader;
    std::optional<Session> session;
};

}  // namespace testing_support
