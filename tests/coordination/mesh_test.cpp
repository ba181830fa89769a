#include <gx/coordination/mesh.hpp>

#include <linux/sockios.h>  // SIOCOUTQ
#include <netinet/in.h>     // sockaddr_in
#include <signal.h>         // kill
#include <sys/ioctl.h>      // ioctl
#include <sys/resource.h>   // getrusage
#include <sys/socket.h>     // send, recv
#include <sys/wait.h>       // waitpid
#include <unistd.h>         // fork, _exit

#include <gx/core/detail/sanitizers.hpp>  // GX_THREAD_SANITIZER
#include <gx/core/error.hpp>              // Error

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>    // a message
#include <numeric>  // iota
#include <thread>   // ranks of one process

#include <coordination/sessions.hpp>  // NoFreeDescriptor
#include <testing/processes_run.hpp>  // status_of_child

namespace {

using gx::Delivery;
using gx::Request;
using gx::coordination::Descriptor;
using gx::coordination::Mesh;
using gx::coordination::Session;
using gx::coordination::socket_pair;
using Endpoint = gx::coordination::MeshEndpoint;

template <class T>
std::span<const std::byte> out(const T& x) {
    return std::as_bytes(std::span(x));
}
template <class T>
std::span<std::byte> in(T& x) {
    return std::as_writable_bytes(std::span(x));
}

/// The ends of a full mesh, [rank][peer].
std::vector<std::vector<Descriptor>> sockets(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    std::vector<std::vector<Descriptor>> ends(n);
    for (auto& row : ends) row.resize(n);
    for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = a + 1; b < n; ++b) std::tie(ends[a][b], ends[b][a]) = socket_pair();
    return ends;
}
/// The session of a rank, over given sockets to the other ranks' or to the root's.
std::unique_ptr<Session> session_of(int rank, int ranks, std::vector<Descriptor> others) {
    const Session::Options o{.run_id = "mesh",
                             .rank = rank,
                             .ranks = ranks,
                             .silence = gx::coordination::Duration::max()};
    if (rank == 0) return std::make_unique<Session>(o, std::move(others));
    return std::make_unique<Session>(o, std::move(others[0]));
}
/// One rank: a mesh, and the session that says what happens to ranks.
struct Node {
    Node(std::unique_ptr<Session> s, int ranks, std::vector<Descriptor> sockets,
         std::chrono::nanoseconds deadline)
        : session(std::move(s)), mesh({ranks, 1}, std::move(sockets), deadline, *session) {}
    void stop() { session->fail("stopped by the test"); }
    void leave() {
        mesh.leave();
        session->leave();
    }
    std::unique_ptr<Session> session;
    Mesh mesh;
};
/// Meshes of one process, as many as ranks.
struct Meshes {
    explicit Meshes(int ranks, std::chrono::nanoseconds deadline = std::chrono::seconds(60))
        : Meshes(ranks, deadline, deadline) {}
    Meshes(int ranks, std::chrono::nanoseconds of_rank_0, std::chrono::nanoseconds of_others) {
        auto ends = sockets(ranks), control = sockets(ranks);
        for (int r = 0; r < ranks; ++r)
            all.push_back(std::make_unique<Node>(
                session_of(r, ranks, std::move(control[static_cast<std::size_t>(r)])), ranks,
                std::move(ends[static_cast<std::size_t>(r)]), r == 0 ? of_rank_0 : of_others));
    }
    Endpoint operator[](std::size_t r) { return Endpoint(all[r]->mesh); }
    std::vector<std::unique_ptr<Node>> all;
};

// ---- Connecting ---------------------------------------------------------------------
TEST(Mesh, ItsSocketsAreMadeAtTheRanksOwnAddresses) {
    auto control = sockets(4);
    std::vector<std::unique_ptr<Session>> sessions;
    for (int r = 0; r < 4; ++r)
        sessions.push_back(session_of(r, 4, std::move(control[static_cast<std::size_t>(r)])));
    std::vector<std::jthread> ranks;
    for (int r = 0; r < 4; ++r)
        ranks.emplace_back([&session = *sessions[static_cast<std::size_t>(r)], r] {
            session.join();
            Mesh mesh({4, 1},
                      gx::coordination::connect_all(session, "127.0.0.1", std::chrono::minutes(1)),
                      std::chrono::minutes(1), session);
            Endpoint link(mesh);
            for (int peer = 0; peer < 4; ++peer) {
                const std::vector<int> sent{r, peer};
                std::vector<int> got(2);
                const Request a = link.send(peer, 0, out(sent)), b = link.receive(peer, 0, in(got));
                EXPECT_TRUE(link.wait(a).complete());
                EXPECT_TRUE(link.wait(b).complete());
                EXPECT_EQ(got, (std::vector<int>{peer, r}));
            }
            mesh.leave();
            session.leave();
            EXPECT_TRUE(session.end(std::chrono::minutes(1)));
        });
}
TEST(Mesh, AStrangerAtARanksAddressIsNotTaken) {
    auto control = sockets(2);
    auto zero = session_of(0, 2, std::move(control[0])),
         one = session_of(1, 2, std::move(control[1]));
    one->join();
    const std::jthread other([&one] {
        const std::string said = one->gather("")[0];  // "tcp:127.0.0.1:PORT KEY"
        const std::size_t space = said.find(' ');
        const std::uint64_t key = std::stoull(said.substr(space + 1));
        std::vector<Descriptor> connections;
        const auto silent =
            gx::coordination::connect_to(said.substr(0, space), std::chrono::minutes(1));
        for (const std::uint64_t k : {key + 1, key}) {
            char end = 0;  // of the one that is not taken
            if (k == key) {
                EXPECT_LE(::recv(connections[0].get(), &end, 1, 0), 0);
            }
            connections.push_back(
                gx::coordination::connect_to(said.substr(0, space), std::chrono::minutes(1)));
            const std::uint64_t greeting[]{k, 1, k == key};
            EXPECT_EQ(::send(connections.back().get(), greeting, sizeof(greeting), MSG_NOSIGNAL),
                      std::ssize(std::as_bytes(std::span(greeting))));
        }
    });
    // A silent one may keep its connection for 5 s, and does not hold up the others.
    const auto got = gx::coordination::connect_all(*zero, "127.0.0.1", std::chrono::seconds(4));
    std::uint64_t is_right = 0;
    EXPECT_EQ(::recv(got[1].get(), &is_right, sizeof(is_right), MSG_WAITALL), 8);
    EXPECT_EQ(is_right, 1u);
}
TEST(Mesh, ARankThatDoesNotConnectIsNamed) {
    auto control = sockets(2);
    auto zero = session_of(0, 2, std::move(control[0])),
         one = session_of(1, 2, std::move(control[1]));
    zero->join();
    one->note({std::byte{'x'}});  // no address, and no connection
    std::string text;
    try {
        (void)gx::coordination::connect_all(*zero, "127.0.0.1", std::chrono::seconds(1));
    } catch (const gx::Error& e) {
        text = e.what();
    }
    EXPECT_NE(text.find("rank 1 did not connect to rank 0 at tcp:127.0.0.1:"), text.npos) << text;
}
/// At the address that it gave nobody listens any more.
std::string error_of_connecting(Session& session, std::chrono::nanoseconds limit) {
    session.join();
    try {
        (void)gx::coordination::connect_all(session, "127.0.0.1", limit);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
/// The error of the rank that has no descriptor left names that rank and the remedy.
TEST(Mesh, ARankWithoutADescriptorSaysSo) {
    auto control = sockets(2);
    auto zero = session_of(0, 2, std::move(control[0])),
         one = session_of(1, 2, std::move(control[1]));
    const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::string text;
    std::jthread rank_0([&] { text = error_of_connecting(*zero, std::chrono::seconds(1)); });
    one->join();
    const std::string said = one->gather("")[0];  // "tcp:127.0.0.1:PORT KEY"
    const testing_support::NoFreeDescriptor none;
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(static_cast<std::uint16_t>(std::stoi(said.substr(14))));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0);
    rank_0.join();
    EXPECT_NE(text.find(": rank 0 can't accept a connection: Too many open files; raise the limit "
                        "of open files (ulimit -n) or use fewer ranks"),
              text.npos)
        << text;
}
TEST(Mesh, ARankThatIsLostWhileOthersConnectToItIsNamedAtOnce) {
    auto control = sockets(2);
    auto zero = session_of(0, 2, std::move(control[0])),
         one = session_of(1, 2, std::move(control[1]));
    zero->join();
    const std::string nobody = "tcp:127.0.0.1:1 7";
    const auto bytes = std::as_bytes(std::span(nobody));
    zero->note({bytes.begin(), bytes.end()});
    const auto begun = std::chrono::steady_clock::now();
    const std::string late = error_of_connecting(*one, std::chrono::seconds(1));
    EXPECT_NE(late.find("rank 1 did not reach rank 0: address 'tcp:127.0.0.1:1' "), late.npos)
        << late;
    zero->note({bytes.begin(), bytes.end()});
    const std::jthread ends([&] { zero.reset(); });
    const std::string lost = error_of_connecting(*one, std::chrono::minutes(1));
    EXPECT_NE(lost.find("rank 0 is lost: "), lost.npos) << lost;
    EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(30));
}

// ---- Messages -----------------------------------------------------------------------
TEST(Mesh, BothSidesSendMoreThanASocketHolds) {
    Meshes m(2);
    const std::size_t count = (std::size_t{24} << 20) + 3;
    std::vector<unsigned char> a(count, 1), b(count, 2), got_a(count), got_b(count);
    auto zero = m[0], one = m[1];
    const Request s0 = zero.send(1, 0, out(a)), s1 = one.send(0, 0, out(b));
    const Request r0 = zero.receive(1, 0, in(got_b)), r1 = one.receive(0, 0, in(got_a));
    EXPECT_TRUE(zero.wait(s0).complete());
    EXPECT_TRUE(one.wait(s1).complete());
    EXPECT_TRUE(zero.wait(r0).complete());
    EXPECT_TRUE(one.wait(r1).complete());
    EXPECT_TRUE(got_a == a && got_b == b);
}
TEST(Mesh, MessagesOfNoBytesAndToItself) {
    Meshes m(2);
    auto zero = m[0], one = m[1];
    std::vector<int> none, mine{7, 8}, got(2);
    const Request s = zero.send(1, 0, out(none)), r = one.receive(0, 0, in(none));
    EXPECT_TRUE(zero.wait(s).complete() && one.wait(r).complete());
    const Request before = zero.receive(0, 1, in(got)), self = zero.send(0, 1, out(mine));
    EXPECT_TRUE(zero.wait(before).complete() && zero.wait(self).complete());
    EXPECT_EQ(got, mine);
}

TEST(MeshDeathTest, AReceiveOfAnotherLengthIsNamed) {
    const auto exchange = [](bool early) {
        Meshes m(2);
        auto zero = m[0], one = m[1];
        const std::vector<int> three(3);
        std::vector<int> two(2);
        if (early) (void)one.receive(0, 5, in(two));
        (void)zero.wait(zero.send(1, 5, out(three)));
        (void)one.wait(one.receive(0, 5, in(two)));
    };
    for (const bool early : {true, false})
        EXPECT_DEATH(exchange(early),
                     "rank 0 sends 12 bytes where rank 1 receives 8, on channel 5: .*equal length");
}
TEST(MeshDeathTest, AReceiveInAnotherBucketIsNamed) {
    const auto exchange = [](bool early, int bucket) {
        Meshes m(2);
        auto zero = m[0].in_operation({"all-reduce", 7, 3});
        auto one = m[1].in_operation({"all-reduce", 7, bucket});
        const std::vector<int> sent(2, 5);
        std::vector<int> got(2);
        const Request before = early ? one.receive(0, 5, in(got)) : Request{};
        EXPECT_TRUE(zero.wait(zero.send(1, 5, out(sent))).complete());
        auto from = m[0], to = m[1];  // a message behind it, of no bucket: then it is there
        std::vector<int> behind(2);
        EXPECT_TRUE(from.wait(from.send(1, 6, out(sent))).complete());
        EXPECT_TRUE(to.wait(to.receive(0, 6, in(behind))).complete());
        EXPECT_TRUE(one.wait(early ? before : one.receive(0, 5, in(got))).complete());
        EXPECT_EQ(got, sent);
    };
    for (const bool early : {true, false}) {  // the receive, before the message
        exchange(early, 3);
        exchange(early, -1);  // of no bucket
        EXPECT_DEATH(exchange(early, 4),
                     "rank 0 sends bucket 3 of step 7 where rank 1 receives bucket 4 of step 7, "
                     "on channel 5: .*same order");
    }
}

/// Rank 0 posts messages of `sizes` on the channels i % 3; rank 1 posts the receives by channel,
/// the first `early` of them before anything is sent.
void channels_keep_their_order(const std::vector<std::size_t>& sizes, std::size_t early) {
    Meshes m(2);
    auto zero = m[0], one = m[1];
    std::vector<std::size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [](auto a, auto b) { return a % 3 < b % 3; });
    std::vector<std::vector<std::size_t>> sent, got;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        sent.emplace_back(sizes[i], i);
        got.emplace_back(sizes[i], std::size_t{0} - 1);
    }
    std::vector<Request> receives, sends;
    const auto post = [&](std::size_t k) {
        const std::size_t i = order[k];
        receives.push_back(one.receive(0, static_cast<int>(i % 3), in(got[i])));
    };
    for (std::size_t k = 0; k < std::min(early, order.size()); ++k) post(k);
    for (std::size_t i = 0; i < sizes.size(); ++i)
        sends.push_back(zero.send(1, static_cast<int>(i % 3), out(sent[i])));
    for (std::size_t k = std::min(early, order.size()); k < order.size(); ++k) post(k);
    while (!receives.empty()) {
        const gx::Arrival a = one.wait_any(receives);
        RC_ASSERT(a.delivery.complete());
        receives.erase(receives.begin() + static_cast<std::ptrdiff_t>(a.index));
    }
    for (const Request s : sends) RC_ASSERT(zero.wait(s).complete());
    RC_ASSERT(sent == got);
}
RC_GTEST_PROP(Mesh, ChannelsAreIndependentAndInOrder, ()) {
    channels_keep_their_order(*rc::gen::container<std::vector<std::size_t>>(
                                  rc::gen::element<std::size_t>(0, 1, 2, 40, 5000, 100'000)),
                              *rc::gen::inRange<std::size_t>(0, 12));
}

TEST(Mesh, TwoThreadsOfARankUseTheirOwnChannels) {
    Meshes m(2);
    const auto talk = [&](std::size_t rank, int channel) {
        auto link = m[rank];
        const int peer = 1 - static_cast<int>(rank);
        for (int i = 0; i < 300; ++i) {
            std::vector<int> mine(1 + static_cast<std::size_t>(i) * 7, i), got(mine.size());
            const Request s = link.send(peer, channel, out(mine));
            const Request r = link.receive(peer, channel, in(got));
            EXPECT_TRUE(link.wait(r).complete() && link.wait(s).complete());
            ASSERT_EQ(got, mine);
        }
    };
    std::vector<std::jthread> threads;
    for (const std::size_t rank : {0u, 1u})
        for (const int channel : {0, gx::control_channel})
            threads.emplace_back([&, rank, channel] { talk(rank, channel); });
}

// ---- Lost ranks -----------------------------------------------------------------------
TEST(Mesh, TheEndOfASocketIsALostRankAtOnce) {  // the deadline is a minute
    Meshes m(3);
    std::vector<int> of_one(1), of_two(1);
    auto zero = m[0];
    const Request from_one = zero.receive(1, 0, in(of_one));
    const Request from_two = zero.receive(2, 0, in(of_two));
    m.all[2].reset();
    const Delivery lost = zero.wait(from_two), other = zero.wait(from_one);
    EXPECT_EQ(lost.outcome, Delivery::Outcome::lost);
    EXPECT_EQ(lost.peer, 2);
    EXPECT_EQ(other.outcome, Delivery::Outcome::cancelled);
    EXPECT_EQ(other.peer, 2);
    auto one = m[1];
    EXPECT_EQ(one.wait(one.receive(0, 0, in(of_one))).peer, 2) << "every rank is told";
}
TEST(Mesh, WhatWasSentBeforeTheEndArrives) {
    Meshes m(2);
    std::vector<int> sent(1000, 4), got(1000);
    auto zero = m[0], one = m[1];
    const Request r = zero.receive(1, 0, in(got));
    ASSERT_TRUE(one.wait(one.send(0, 0, out(sent))).complete());
    m.all[1].reset();
    EXPECT_TRUE(zero.wait(r).complete());
    EXPECT_EQ(got, sent);
}
TEST(Mesh, ARankThatLeftIsNotLost) {
    Meshes m(2);
    std::vector<int> sent(10, 4), got(10);
    auto zero = m[0], one = m[1];
    ASSERT_TRUE(one.wait(one.send(0, 0, out(sent))).complete());
    m.all[1]->leave();
    m.all[1].reset();
    EXPECT_TRUE(zero.wait(zero.receive(1, 0, in(got))).complete()) << "sent before it left";
    const Delivery d = zero.wait(zero.receive(1, 0, in(got)));
    EXPECT_EQ(d.outcome, Delivery::Outcome::timed_out) << "only a rank that left could send it";
    EXPECT_EQ(d.peer, 1);
}
/// The deadline is a minute.
TEST(Mesh, ASendToARankThatLeftAndDiedEndsAtOnce) {
    Meshes m(2);
    m.all[1]->leave();
    Endpoint zero(m.all[0]->mesh);
    std::array x{1};
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until its end has been read
    m.all[1].reset();
    EXPECT_FALSE(zero.wait(zero.send(1, 0, out(x))).complete());
}
TEST(Mesh, WaitAnyGoesOnWhileOneCanStillComplete) {
    Meshes m(3);
    std::vector<int> sent{5}, a(1), b(1);
    auto zero = m[0], one = m[1];
    const std::vector<Request> both{zero.receive(2, 0, in(a)), zero.receive(1, 0, in(b))};
    m.all[2]->leave();
    m.all[2].reset();
    const Request s = one.send(0, 0, out(sent));
    const gx::Arrival arrival = zero.wait_any(both);
    EXPECT_TRUE(arrival.delivery.complete());
    EXPECT_EQ(arrival.index, 1u);
    EXPECT_TRUE(one.wait(s).complete());
}
TEST(Mesh, ADeadlineStopsAllRanks) {
    Meshes m(3, std::chrono::milliseconds(20));
    std::vector<int> x(1);
    auto zero = m[0];
    const Delivery d = zero.wait(zero.receive(1, 0, in(x)));
    EXPECT_EQ(d.outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(d.peer, 1);
    EXPECT_EQ(zero.wait(zero.receive(2, 0, in(x))).outcome, Delivery::Outcome::cancelled);
}
/// Rank 0 waits for rank 1, which waits for rank 2, which does something else.
TEST(Mesh, ADeadlineNamesTheEndOfTheWaitsForGraph) {
    Meshes m(3, std::chrono::seconds(1), std::chrono::seconds(60));
    std::vector<int> x(1), y(1);
    std::jthread other([&] {
        auto one = m[1];
        EXPECT_EQ(one.wait(one.receive(2, 0, in(y))).peer, 2);
    });
    auto zero = m[0];
    EXPECT_EQ(zero.wait(zero.receive(1, 0, in(x))).peer, 2);
}
/// Rank 0 waits for rank 1, which waits for rank 0, or for rank 2, which waits for none.
TEST(Mesh, ADeadlineIsFollowedFromEachPeerOfAWait) {
    Meshes m(3, std::chrono::seconds(1), std::chrono::seconds(60));
    std::vector<int> x(1), y(1), z(1);
    std::jthread other([&] {
        auto one = m[1];
        EXPECT_EQ(one.wait(one.receive(0, 0, in(z))).peer, 2);
    });
    auto zero = m[0];
    const std::vector<Request> both{zero.receive(1, 0, in(x)), zero.receive(2, 0, in(y))};
    EXPECT_EQ(zero.wait_any(both).delivery.peer, 2);
    EXPECT_EQ(zero.wait(both[0]).peer, 2);
}
TEST(Mesh, AStopCancelsTheOthersAndNamesTheRank) {
    Meshes m(3);
    std::vector<int> x(1);
    auto zero = m[0];
    const Request r = zero.receive(2, 0, in(x));
    m.all[1]->stop();
    const Delivery d = zero.wait(r);
    EXPECT_EQ(d.outcome, Delivery::Outcome::cancelled);
    EXPECT_EQ(d.peer, 1);
    EXPECT_EQ(m.all[0]->session->cause().observer, 1);
}
TEST(Mesh, ARankThatLeftBecauseAnotherFailedIsNotBlamed) {
    Meshes m(3);
    std::vector<int> x(1);
    auto zero = m[0], one = m[1];
    m.all[2]->stop();
    EXPECT_EQ(one.wait(one.receive(2, 0, in(x))).peer, 2);
    m.all[1]->leave();
    m.all[1].reset();
    for (int i = 0; i < 100; ++i) {  // whether or not the end of its socket was seen
        const Delivery d = zero.wait(zero.receive(1, 0, in(x)));
        EXPECT_EQ(d.outcome, Delivery::Outcome::cancelled);
        EXPECT_EQ(d.peer, 2);
        std::this_thread::yield();
    }
}
/// Before each message on a socket.
struct Header {
    std::int64_t channel = 0;
    std::uint64_t bytes = 0;
    std::uint64_t bucket = 0;  ///< 0: of none
};
/// Writes to a socket, and returns once its other end has read everything.
void write_and_let_read(const Descriptor& socket, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const auto n = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        ASSERT_GT(n, 0);
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    for (int unread = 1; unread > 0; std::this_thread::yield())
        ASSERT_EQ(ioctl(socket.get(), SIOCOUTQ, &unread), 0);
}
TEST(Mesh, MemoryOfAFailedWaitIsNotTouched) {
    auto ends = sockets(2);
    const Descriptor raw = std::move(ends[1][0]);
    Node node(session_of(0, 2, {}), 2, std::move(ends[0]), std::chrono::seconds(60));
    Endpoint zero(node.mesh);
    std::vector<char> got(100'000, 'a');
    const Request r = zero.receive(1, 0, in(got));
    std::vector<char> next(100'000, 'a');
    const Request of_next = zero.receive(1, 0, in(next));
    const Header header{.bytes = 100'000};
    const std::vector<char> half(50'000, 'b');
    write_and_let_read(raw, std::as_bytes(std::span(&header, 1)));
    write_and_let_read(raw, out(half));
    node.stop();
    EXPECT_FALSE(zero.wait(r).complete());
    EXPECT_EQ(std::count(got.begin(), got.end(), 'b'), 50'000) << "else this tests nothing";
    write_and_let_read(raw, out(half));
    EXPECT_EQ(std::count(got.begin(), got.end(), 'a'), 50'000);
    EXPECT_FALSE(zero.wait(of_next).complete()) << "it is not its message";
    EXPECT_EQ(std::count(next.begin(), next.end(), 'a'), 100'000);
}
TEST(Mesh, AMessageThatIsHalfSentGoesOutWholeAfterItsWaitFailed) {
    auto ends = sockets(2);
    const Descriptor raw = std::move(ends[1][0]);
    Node node(session_of(0, 2, {}), 2, std::move(ends[0]), std::chrono::seconds(60));
    Endpoint zero(node.mesh);
    std::vector<char> sent(std::size_t{4} << 20, 'c');  // more than a socket holds
    const Request s = zero.send(1, 0, out(sent));
    node.stop();
    EXPECT_FALSE(zero.wait(s).complete());
    std::ranges::fill(sent, 'd');  // as the memory of something else
    std::vector<char> got(sizeof(Header) + sent.size());
    ASSERT_EQ(::recv(raw.get(), got.data(), got.size(), MSG_WAITALL), std::ssize(got));
    EXPECT_EQ(std::count(got.begin() + sizeof(Header), got.end(), 'c'), std::ssize(sent));
}

TEST(Mesh, BehindAReceiveThatIsWithdrawnNoOtherOfItsChannelTakesItsMessage) {
    auto ends = sockets(2);
    const Descriptor raw = std::move(ends[1][0]);
    Node node(session_of(0, 2, {}), 2, std::move(ends[0]), std::chrono::seconds(60));
    Endpoint zero(node.mesh);
    std::vector<char> before(10), first(10), second(10, 'a'), third(20, 'a'), other(10);
    const Request zeroth = zero.receive(1, 0, in(before)), one = zero.receive(1, 0, in(first)),
                  two = zero.receive(1, 0, in(second)), three = zero.receive(1, 0, in(third)),
                  of_other = zero.receive(1, 1, in(other));
    node.stop();
    EXPECT_FALSE(zero.wait(one).complete());
    for (const std::int64_t channel : {0, 0, 0, 1}) {
        const Header header{.channel = channel, .bytes = 10};
        const std::vector<char> message(10, 'b');
        write_and_let_read(raw, std::as_bytes(std::span(&header, 1)));
        write_and_let_read(raw, out(message));
    }
    EXPECT_TRUE(zero.wait(zeroth).complete()) << "before it, and it has arrived";
    EXPECT_TRUE(zero.wait(of_other).complete()) << "of another channel";
    EXPECT_FALSE(zero.wait(two).complete()) << "its message may be another's";
    EXPECT_FALSE(zero.wait(three).complete());
    EXPECT_EQ(second, std::vector<char>(10, 'a'));
    EXPECT_EQ(third, std::vector<char>(20, 'a'));
}
TEST(Mesh, BehindASendThatIsWithdrawnNoOtherOfItsChannelGoesOut) {
    auto ends = sockets(2);
    const Descriptor raw = std::move(ends[1][0]);
    std::vector<char> big(std::size_t{4} << 20, 'c'), got(sizeof(Header) + big.size());
    const std::vector<int> one{1}, two{2}, other{3};
    Node node(session_of(0, 2, {}), 2, std::move(ends[0]), std::chrono::seconds(60));
    Endpoint zero(node.mesh);
    (void)zero.send(1, 0, out(big));  // more than a socket holds: the others stay behind it
    const Request first = zero.send(1, 0, out(one));
    (void)zero.send(1, 0, out(two));
    const Request of_other = zero.send(1, 1, out(other));
    node.stop();
    EXPECT_FALSE(zero.wait(first).complete());
    ASSERT_EQ(::recv(raw.get(), got.data(), got.size(), MSG_WAITALL), std::ssize(got));
    struct {
        Header header;
        int value = 0;
    } next;
    constexpr std::size_t bytes = sizeof(Header) + sizeof(int);
    ASSERT_EQ(std::size_t(::recv(raw.get(), &next, bytes, MSG_WAITALL)), bytes);
    EXPECT_EQ(next.value, 3) << "the other rank would take 2 for 1";
    EXPECT_TRUE(zero.wait(of_other).complete());
}

/// Whether rank 0 of two is told, in a child that closes all descriptors while it waits for rank 1,
/// and what then(meshes) says of that.
template <class F>
bool is_told_where_all_is_closed(F then) {
    return testing_support::status_of_child([&] {
               Meshes m(2);
               for (const std::size_t rank : {1u, 0u}) (void)m.all[rank]->session->join();
               std::vector<int> x(1);
               Endpoint zero = m[0];
               const Request r = zero.receive(1, 0, in(x));
               for (int fd = 3; fd < 256; ++fd) ::close(fd);
               return then(m, [&] { return !zero.wait(r).complete(); }) ? 0 : 1;
           }) == 0;
}
TEST(Mesh, AProgramThatClosesAllDescriptorsIsTold) {
    EXPECT_TRUE(is_told_where_all_is_closed([](Meshes&, auto is_told) {
        const bool told = is_told();
        rusage used{};
        ::getrusage(RUSAGE_SELF, &used);
        return told && used.ru_utime.tv_sec + used.ru_stime.tv_sec == 0;  // no busy waiting
    }));
}
/// Sockets that have their numbers by then are read, written and shut down by nobody else.
TEST(Mesh, SocketsThatTakeTheNumbersOfDescriptorsStayAsTheyAre) {
    if constexpr (GX_THREAD_SANITIZER)
        GTEST_SKIP() << "a descriptor that is closed while others use it is a race";
    EXPECT_TRUE(is_told_where_all_is_closed([](Meshes& m, auto is_told) {
        std::vector<std::array<int, 2>> mine(20);
        const std::string text(100, 'x');
        for (auto& pair : mine) {
            (void)::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data());
            for (const int end : pair) (void)!::write(end, text.data(), text.size());
        }
        const std::vector<int> y(1);
        (void)m[1].send(0, 0, out(y));
        bool same = is_told();
        for (const auto& pair : mine)
            for (const int end : pair) {
                std::string read(2 * text.size(), 0);
                const auto n = ::recv(end, read.data(), read.size(), MSG_DONTWAIT);
                same = same && n == std::ssize(text) && read.starts_with(text);
            }
        for (const auto& pair : mine)
            for (const int end : pair) same = same && ::send(end, "y", 1, MSG_NOSIGNAL) == 1;
        return same;
    }));
}

TEST(Mesh, AKilledProcessIsLost) {
    auto ends = sockets(2), control = sockets(2);
    const pid_t child = fork();
    if (child == 0) {
        ends[0].clear();
        control[0].clear();
        for (;;) pause();
    }
    ends[1].clear();
    control[1].clear();
    Node node(session_of(0, 2, std::move(control[0])), 2, std::move(ends[0]),
              std::chrono::seconds(60));
    Endpoint zero(node.mesh);
    std::vector<int> x(1);
    const Request r = zero.receive(1, 0, in(x));
    kill(child, SIGKILL);
    const Delivery d = zero.wait(r);
    EXPECT_EQ(d.outcome, Delivery::Outcome::lost);
    EXPECT_EQ(d.peer, 1);
    waitpid(child, nullptr, 0);
}

/// Rank 1 is stopped, so that the root waits for its answer before it names it.
TEST(Mesh, AWaitSleepsUntilTheCauseFollowsItsBlame) {
    auto control = sockets(2), links = sockets(2);
    const pid_t child = fork();
    if (child == 0) {
        control[0].clear();
        links[0].clear();
        const auto member = session_of(1, 2, std::move(control[1]));
        (void)member->join();
        for (;;) raise(SIGSTOP);
    }
    control[1].clear();
    links[1].clear();
    {
        Node zero(session_of(0, 2, std::move(control[0])), 2, std::move(links[0]),
                  std::chrono::milliseconds(300));
        (void)zero.session->join();
        std::array x{1};
        Endpoint rank(zero.mesh);
        const auto used = [] {  // by this thread
            rusage u{};
            ::getrusage(RUSAGE_THREAD, &u);
            return std::chrono::seconds(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
                   std::chrono::microseconds(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
        };
        const auto before = used();
        EXPECT_EQ(rank.wait(rank.receive(1, 0, in(x))).peer, 1);
        EXPECT_LT(used() - before, std::chrono::milliseconds(100)) << "of some 1,000";
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
}

}  // namespace
