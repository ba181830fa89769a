#include <gx/coordination/session.hpp>

#include <fcntl.h>       // open
#include <pthread.h>     // size of a stack
#include <signal.h>      // kill
#include <sys/socket.h>  // send, recv
#include <sys/time.h>    // setitimer
#include <sys/un.h>      // sockaddr_un
#include <sys/wait.h>    // waitpid
#include <unistd.h>      // fork

#include <gtest/gtest.h>

#include <algorithm>  // any_of
#include <atomic>     // forks
#include <cstring>    // memset
#include <future>     // a change that is waited for
#include <memory>
#include <thread>  // ranks

#include <gx/coordination/node_memory.hpp>  // NodeMemory
#include <gx/core/error.hpp>                // Error, LostRank

#include <coordination/sessions.hpp>  // Sessions, Member1
#include <support/files.hpp>          // Folder
#include <support/stood_still.hpp>    // after_standstill
#include <testing/processes_run.hpp>  // WithProcesses, error_of_run, status_of_child

namespace {

using namespace testing_support;
using namespace gx::coordination;
using namespace std::chrono_literals;

// ---- Rendezvous ------------------------------------------------------------------------
TEST(Session, JoinsOverGivenSockets) {
    Sessions s(3);
    for (int r = 0; r < 3; ++r) {
        const Roster roster = s[std::size_t(r)].join();
        EXPECT_EQ(roster.placement(), (gx::Placement{1, 3}));
        EXPECT_EQ(roster.at(r).process, std::uint64_t(getpid()));
    }
}
void expect_joined_at(const std::string& address) {
    Listener listener(address);
    const std::string where = listener.address();
    Session root(options(0, 3), {}, std::move(listener));
    std::vector<std::unique_ptr<Session>> others;
    for (const int r : {2, 1}) {
        auto o = options(r, 3);
        o.host = r == 2 ? "far" : "h";
        others.push_back(std::make_unique<Session>(o, connect_to(where, 60s)));
    }
    EXPECT_FALSE(root.join().placement().regular());
    for (auto& session : others) EXPECT_EQ(session->join().node_of(2), 1);
    for (auto& session : others) session->leave();
    root.leave();
    for (auto& session : others) EXPECT_TRUE(session->end(60s));
    EXPECT_TRUE(root.end(60s));
}
TEST(Session, JoinsAtAnAddress) {
    const Folder folder;
    expect_joined_at("unix:" + (folder / "socket").string());
    expect_joined_at("tcp:127.0.0.1:0");
}
/// What a connection to a root that waits for rank 1 is told after it sent `bytes`, and closed its
/// side if `ends`.
std::string answer_to(const std::string& where, std::span<const std::byte> bytes) {
    const Descriptor socket = connect_to(where, 60s);
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    MessageReader reader;
    std::byte got[256];
    for (ssize_t n = 0; (n = ::recv(socket.get(), got, sizeof(got), 0)) > 0;)
        reader.feed(std::span(got).first(std::size_t(n)));
    const auto message = reader.next();
    return message ? std::get<Refused>(*message).text : "";
}
TEST(Session, GathersWhatEachRankGives) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    const std::string zero("a\0b", 3);  // any bytes
    std::vector<std::vector<std::string>> got(6);
    {
        std::vector<std::jthread> ranks;
        for (std::size_t r = 0; r < 3; ++r)
            ranks.emplace_back([&, r] {
                got[r] = s[r].gather(r == 0 ? zero : std::to_string(r));
                got[3 + r] = s[r].gather(std::string(r, 'x'));
            });
    }
    for (std::size_t r = 0; r < 3; ++r) {
        EXPECT_EQ(got[r], (std::vector<std::string>{zero, "1", "2"}));
        EXPECT_EQ(got[3 + r], (std::vector<std::string>{"", "x", "xx"}));
    }
}
/// As in another container, where the number of the root's process is that of another one.
TEST(NodeMemory, AnotherFileInItsPlaceIsNotMapped) {
    Sessions s(2);
    for (auto& session : s.all) session->join();
    const Folder folder;
    std::ofstream(folder / "file") << "not ours";
    std::thread root([&] {
        (void)s[0].gather((folder / "file").string() + " 2097152 1 2", 60s);
        (void)s[0].gather("mapped", 60s);
    });
    EXPECT_EQ(NodeMemory::join(s[1], 60s), nullptr);
    root.join();
}
TEST(Session, AGatherEndsWithTheRun) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    s[2].fail("the disk of rank 2 is full");
    EXPECT_TRUE(has(error_of_run([&] { (void)s[0].gather("0"); }), "the disk of rank 2 is full"));
    EXPECT_TRUE(has(error_of_run([&] { (void)s[1].gather("1"); }), "the disk of rank 2 is full"));
}
TEST(Session, AGatherNamesARankThatIsLate) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    std::vector<std::string> errors(2);
    {
        std::vector<std::jthread> ranks;
        for (const std::size_t r : {0u, 2u})
            ranks.emplace_back([&, r] {
                s[r].working_on({"starting"});
                errors[r / 2] = error_of_run([&] { (void)s[r].gather("", 50ms); });
            });
    }
    for (const std::string& error : errors) EXPECT_TRUE(has(error, "rank 1")) << error;
    EXPECT_EQ(s[1].await_cause().reason, Reason::late);
    EXPECT_EQ(s[1].cause().rank, 1);
}
TEST(Session, AGatherNamesARankThatHasReturnedWithout) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    s[2].leave();
    std::jthread other(
        [&] { EXPECT_TRUE(has(error_of_run([&] { (void)s[1].gather("1"); }), "2")); });
    EXPECT_TRUE(has(error_of_run([&] { (void)s[0].gather("0"); }), "rank 2 (host h"));
    EXPECT_EQ(s[0].cause().rank, 2);
}
TEST(Session, NotesReachAllOthersInOrder) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    s[1].note({std::byte{1}});  // before the others listen
    std::vector<std::promise<std::vector<std::byte>>> heard(3);
    std::vector<std::vector<std::byte>> notes(3);
    for (std::size_t r = 0; r < 3; ++r)
        s[r].on_note([&, r](int rank, std::span<const std::byte> bytes) {
            EXPECT_EQ(rank, 1);
            notes[r].insert(notes[r].end(), bytes.begin(), bytes.end());
            if (notes[r].size() == 3) heard[r].set_value(notes[r]);
        });
    s[1].note({std::byte{2}, std::byte{3}});
    const std::vector<std::byte> all{std::byte{1}, std::byte{2}, std::byte{3}};
    EXPECT_EQ(heard[0].get_future().get(), all);
    EXPECT_EQ(heard[2].get_future().get(), all);
    for (auto& session : s.all) session->on_note({});
    EXPECT_TRUE(notes[1].empty());
}
TEST(Session, StrangersAreRefusedWithASentenceAndTheRunGoesOn) {
    const Folder folder;
    Listener listener("unix:" + (folder / "socket").string());
    const std::string where = listener.address();
    Session root(options(0, 2), {}, std::move(listener));
    const std::string noise = "GET / HTTP/1.1\r\n\r\n";
    EXPECT_TRUE(
        has(answer_to(where, std::as_bytes(std::span(noise))), "do not begin as a message"));
    auto other_version = encode(Hello{});
    other_version[4] = std::byte{9};
    EXPECT_TRUE(has(answer_to(where, other_version), "speaks version 9"));
    EXPECT_TRUE(has(answer_to(where, encode(Hello{.run_id = "not", .rank = 1, .ranks = 2})),
                    "its run id differs"));
    EXPECT_TRUE(has(answer_to(where, encode(Leaving{})), "did not begin with a Hello"));
    std::vector<std::byte> large = encode(Hello{});
    large[9] = std::byte{0x10};
    large[8] = std::byte{1};
    EXPECT_TRUE(has(answer_to(where, large), "4097 bytes, at most 4096"));
    {
        const auto hello = encode(Hello{.run_id = "run", .rank = 1, .ranks = 2});
        const Descriptor half = connect_to(where, 60s);
        ASSERT_EQ(::send(half.get(), hello.data(), 20, MSG_NOSIGNAL), 20);
    }
    Session out_of_range(options(7, 2), connect_to(where, 60s));
    EXPECT_TRUE(has(error_of_run([&] { out_of_range.join(); }), "is not in a world of 2 ranks"));
    EXPECT_TRUE(has(answer_to(where, encode(Hello{.run_id = "run", .rank = 0, .ranks = 2})),
                    "two processes have one rank"));
    Session one(options(1, 2), connect_to(where, 60s));
    EXPECT_EQ(one.join().ranks(), 2);
    EXPECT_EQ(root.join().ranks(), 2);
}
/// Its connection ends, whatever it goes on to send; else this test does not.
TEST(Session, AStrangerThatGoesOnSendingIsNotReadForEver) {
    const Folder folder;
    Listener listener("unix:" + (folder / "socket").string());
    const std::string where = listener.address();
    const Session root(options(0, 2), {}, std::move(listener));
    const Descriptor socket = connect_to(where, 60s);
    const std::vector<std::byte> noise(4096, std::byte{7});
    while (::send(socket.get(), noise.data(), noise.size(), MSG_NOSIGNAL) > 0) continue;
    EXPECT_TRUE(errno == EPIPE || errno == ECONNRESET) << errno;
}
/// Checks of health and scans of ports keep theirs open. Else this test does not end.
TEST(Session, AStrangerThatSaysNothingIsNotWaitedForAtTheEnd) {
    const Folder folder;
    Listener listener("unix:" + (folder / "socket").string());
    const std::string where = listener.address();
    Session root(options(0, 2), {}, std::move(listener));
    const Descriptor silent = connect_to(where, 60s);
    {
        Session one(options(1, 2), connect_to(where, 60s));
        EXPECT_EQ(root.join().ranks(), 2);
        for (Session* s : {&root, &one}) s->leave();
        for (Session* s : {&root, &one}) EXPECT_TRUE(s->end(60s));
    }
    root.part(Duration::max());
}
TEST(Session, ARunIdHasOneToAThousandBytes) {
    for (const std::size_t size : {0, 1, 1024, 1025}) {
        auto o = options(0, 1);
        o.run_id = std::string(size, 'x');
        const auto make_root = [&] { Session root(o, std::vector<Descriptor>{}); };
        const auto make_member = [&] {
            auto [mine, theirs] = socket_pair();
            auto of_member = o;
            of_member.rank = 1;
            of_member.ranks = 2;
            Session member(of_member, std::move(mine));
        };
        const bool good = size == 1 || size == 1024;
        for (const std::string& said : {error_of_run(make_root), error_of_run(make_member)}) {
            EXPECT_EQ(said.empty(), good) << size;
            EXPECT_TRUE(good || has(said, "a run id has 1 to 1024 bytes")) << said;
        }
    }
}
TEST(Session, EqualHostsAreOneNodeOnAllRanks) {
    auto [of_root, of_member] = socket_pair();
    std::vector<Descriptor> members(2);
    members[1] = std::move(of_root);
    auto o = options(0, 2);
    o.host = "a\x01";
    Session root(o, std::move(members));
    o.rank = 1;
    Session member(o, std::move(of_member));
    EXPECT_EQ(root.join().nodes(), 1);
    EXPECT_EQ(member.join().nodes(), 1);
}
void connect_raw(const Descriptor& socket, const std::string& path) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    path.copy(a.sun_path, sizeof(a.sun_path) - 1);
    ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)), 0);
}
TEST(Session, ARootWithoutADescriptorSaysSo) {
    const Folder folder;
    const std::string path = (folder / "socket").string();
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    auto o = options(0, 2);
    o.join_deadline = 1s;
    Listener listener("unix:" + path);
    Session root(o, {}, std::move(listener));
    const NoFreeDescriptor none;
    connect_raw(socket, path);
    const std::string text = error_of_run([&] { root.join(); });
    EXPECT_TRUE(has(text,
                    "rank 0 can't accept a connection: Too many open files; raise the limit of "
                    "open files (ulimit -n) or use fewer ranks"))
        << text;
}
TEST(Session, ARootThatHasADescriptorAgainTakesThoseWhoWait) {
    const Folder folder;
    const std::string path = (folder / "socket").string();
    const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    std::vector<Descriptor> members(2);
    Descriptor stranger;
    std::tie(members[1], stranger) = socket_pair();
    Session root(options(0, 2), std::move(members), Listener("unix:" + path));
    {
        const NoFreeDescriptor none;
        connect_raw(socket, path);
        // By the turn in which the root refuses this one, it has seen the other one too.
        const auto hello = encode(Hello{.run_id = "other", .rank = 1, .ranks = 2, .host = "h"});
        ASSERT_EQ(::send(stranger.get(), hello.data(), hello.size(), 0), std::ssize(hello));
        std::byte answer{};
        ASSERT_EQ(::recv(stranger.get(), &answer, 1, 0), 1);
    }
    const auto hello = encode(Hello{.run_id = "run", .rank = 1, .ranks = 2, .host = "h"});
    ASSERT_EQ(::send(socket.get(), hello.data(), hello.size(), 0), std::ssize(hello));
    EXPECT_EQ(root.join().ranks(), 2);
}
TEST(Session, ManySilentConnectionsDoNotKeepAMemberOut) {
    const Folder folder;
    Listener listener("unix:" + (folder / "socket").string());
    const std::string where = listener.address();
    Session root(options(0, 3), {}, std::move(listener));
    const Descriptor two = connect_to(where, 60s);  // its Hello is there before the others are
    const auto hello = encode(Hello{.run_id = "run", .rank = 2, .ranks = 3, .host = "h"});
    ASSERT_EQ(::send(two.get(), hello.data(), hello.size(), 0), std::ssize(hello));
    std::vector<Descriptor> silent;
    for (int i = 0; i < 80; ++i) silent.push_back(connect_to(where, 60s));
    Session one(options(1, 3), connect_to(where, 60s));
    for (Session* s : {&root, &one}) EXPECT_EQ(error_of_run([&] { s->join(); }), "");
}
TEST(Session, WithoutAThreadItIsAnError) {
    pthread_attr_t before, huge;
    ASSERT_EQ(::pthread_getattr_default_np(&before), 0);
    ASSERT_EQ(::pthread_getattr_default_np(&huge), 0);
    ASSERT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
    ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
    std::string text;
    try {
        Session root(options(0, 1), std::vector<Descriptor>{});
    } catch (const gx::Error& e) {
        text = e.what();
    } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
    }
    ASSERT_EQ(::pthread_setattr_default_np(&before), 0);
    EXPECT_TRUE(has(text, "a thread can't be made")) << text;
}
TEST(Session, AMemberThatNeverComesIsNamedToAll) {
    Listener listener("tcp:127.0.0.1:0");
    const std::string where = listener.address();
    auto o = options(0, 4);
    o.join_deadline = 1s;
    Session root(o, {}, std::move(listener));
    Session two(options(2, 4), connect_to(where, 60s));
    for (Session* s : {&root, &two})
        EXPECT_TRUE(has(error_of_run([&] { s->join(); }), "and 3 of 4 did not come within 1 s"))
            << s->sentence();
}

// ---- Comparison --------------------------------------------------------------------------
TEST(Session, DifferentTermsThrowOnAllRanks) {
    for (const bool equal : {true, false}) {
        Sessions s(3);
        std::vector<std::string> said(3);
        {
            std::vector<std::jthread> ranks;
            for (std::size_t r = 0; r < 3; ++r)
                ranks.emplace_back([&, r] {
                    const std::uint64_t seed = !equal && r == 1 ? 6 : 5;
                    said[r] = error_of_run(
                        [&] { s[r].compare({.composition = "T", .seed = seed, .ranks = 3}); });
                });
        }
        for (const std::string& text : said) {
            EXPECT_EQ(text, said[0]);
            EXPECT_EQ(text.empty(), equal);
            EXPECT_TRUE(equal || has(text, "the seed of rank 1 is '6', that of rank 0 is '5'"));
        }
    }
}

// ---- Causes and ends -----------------------------------------------------------------------
TEST(Session, TellsOfChangesAlone) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    std::atomic<int> calls = 0, notes = 0;
    std::promise<void> all_noted;
    s[1].on_change([&] { ++calls; });
    s[1].on_note([&](int, std::span<const std::byte>) {
        if (++notes == 100) all_noted.set_value();
    });
    for (int i = 0; i < 100; ++i) s[0].note({std::byte{1}});
    all_noted.get_future().wait();
    EXPECT_EQ(calls, 1) << "the first";
}
TEST(Session, TellsOfACauseAndOfWhoHasLeft) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    s[2].leave();
    await(s[1], [&] { return s[1].left(2); });
    s[0].fail("over");
    EXPECT_EQ(cause_of(s[1]).rank, 0);
}
TEST(Session, AnErrorReachesAllAndItsStatusIsEverybodys) {
    Sessions s(3);
    for (std::size_t r = 0; r < 3; ++r) s[r].join();
    s[2].working_on({"load", 3});
    s[2].fail("disk 7 is full", 5);
    for (std::size_t r = 0; r < 3; ++r) {
        EXPECT_EQ(cause_of(s[r]), (Cause{Reason::error, 2, 2, 5, {"load", 3}, "disk 7 is full"}));
        s[r].leave();
    }
    for (const std::size_t r : {2u, 1u, 0u}) {
        EXPECT_TRUE(s[r].end(60s));
        EXPECT_EQ(s[r].exit_status(), 5);
    }
    EXPECT_EQ(s[0].error_of(2), "disk 7 is full");
    EXPECT_TRUE(s[0].running().empty());
}
/// Rank 1 waits in several threads, and some of the waits end.
/// As where rank 0 leaves as soon as its own gather is over.
TEST(Session, AGatherIsWholeWhereItsNotesCameBeforeTheCause) {
    auto bytes = encode(Note{0, {std::byte{'0'}}});
    const auto cause = encode(Cause{.reason = Reason::error, .rank = 0, .observer = 0});
    bytes.insert(bytes.end(), cause.begin(), cause.end());
    for (int i = 0; i < 200; ++i) {
        Member1 m(2);
        EXPECT_EQ(::send(m.root.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
        while (!m.session->cause().stopped()) {
        }
        std::vector<std::string> all;
        ASSERT_NO_THROW(all = m.session->gather("1")) << "in repetition " << i;
        EXPECT_EQ(all, (std::vector<std::string>{"0", "1"}));
    }
}
TEST(Session, ASessionThatEndsEarlyIsALostRank) {
    Sessions s(3);
    for (std::size_t r = 0; r < 3; ++r) s[r].join();
    s[0].working_on({"all-reduce", 4, 2});
    s.all[1].reset();
    for (const std::size_t r : {0u, 2u}) {
        EXPECT_EQ(cause_of(s[r]).rank, 1);
        EXPECT_TRUE(has(s[r].sentence(), "step 4, bucket 2, operation all-reduce"));
    }
    EXPECT_EQ(s[0].running(), (std::vector{0, 2}));
}
TEST(Session, TheRootReturnsFromEndLast) {
    Sessions s(2);
    for (std::size_t r = 0; r < 2; ++r) s[r].join();
    s[0].leave();
    await(s[1], [&] { return s[1].left(0); });
    EXPECT_FALSE(s[0].end(0s)) << "rank 1 still runs";
    EXPECT_EQ(s[0].running(), std::vector{1});
    s[1].leave();
    EXPECT_TRUE(s[1].end(60s));
    EXPECT_TRUE(s[0].end(60s));
    EXPECT_FALSE(s[0].cause().stopped());
}
TEST(Session, TheLossOfTheRootIsNamedByAll) {
    Sessions s(3);
    for (std::size_t r = 0; r < 3; ++r) s[r].join();
    s.all[0].reset();
    for (const std::size_t r : {1u, 2u}) {
        EXPECT_EQ(cause_of(s[r]).rank, 0);
        s[r].leave();
        EXPECT_TRUE(s[r].end(60s)) << "there is nobody to wait for";
        EXPECT_EQ(s[r].exit_status(), 1);
    }
}
/// Also where it comes before the rank could say what it does.
TEST(Session, TheLossOfTheRootIsSaidWithWhatTheRankBeginsWith) {
    auto [root, mine] = socket_pair();
    root.close();
    auto o = options(1, 2);
    o.operation = {"no run: before the first"};
    Session session(o, std::move(mine));
    EXPECT_TRUE(has(cause_of(session).text, "noticed by rank 1 in operation no run"))
        << session.cause().text;
}
/// Another server at its address may answer, and keep the connection open.
TEST(Session, ARootThatSendsWhatNoRootDoesIsLostAndNotWaitedFor) {
    const std::vector<Message> wrong{Leaving{}, Welcome{}, Left{7}, Note{1, {}}};
    for (const Message& message : wrong) {
        Member1 m(2);
        const auto bytes = encode(message);
        ASSERT_EQ(::send(m.root.get(), bytes.data(), bytes.size(), 0), std::ssize(bytes));
        const Cause cause = cause_of(*m.session);
        EXPECT_EQ(cause.reason, Reason::lost) << cause.text;
        EXPECT_EQ(cause.rank, 0) << cause.text;
        m.session->leave();
        EXPECT_TRUE(m.session->end(60s)) << cause.text;
    }
}
TEST(Session, AHalfMessageAndThenTheEndIsSaid) {
    auto [of_root, raw] = socket_pair();
    std::vector<Descriptor> members(2);
    members[1] = std::move(of_root);
    Session root(options(0, 2), std::move(members));
    auto bytes = encode(Hello{.run_id = "run", .rank = 1, .ranks = 2, .host = "h"});
    const auto half = encode(Failed{1, {}, "never whole"});
    bytes.insert(bytes.end(), half.begin(), half.end() - 3);
    ASSERT_EQ(::send(raw.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
    root.join();
    raw.close();
    EXPECT_TRUE(has(cause_of(root).text, "its connection ended inside a message"));
}

// ---- Processes -----------------------------------------------------------------------------
using SessionOfProcesses = testing_support::WithProcesses;

TEST_F(SessionOfProcesses, AKilledProcessIsLost) {
    auto [of_root, of_child] = socket_pair();
    const pid_t child = fork();
    if (child == 0) {
        of_root.close();
        Session member(options(1, 2), std::move(of_child));
        for (;;) pause();
    }
    of_child.close();
    std::vector<Descriptor> members(2);
    members[1] = std::move(of_root);
    Session root(options(0, 2), std::move(members));
    EXPECT_EQ(root.join().at(1).process, std::uint64_t(child));
    kill(child, SIGKILL);
    EXPECT_EQ(cause_of(root).rank, 1);
    EXPECT_EQ(root.cause().reason, Reason::lost);
    waitpid(child, nullptr, 0);
}
TEST_F(SessionOfProcesses, AStoppedProcessIsSilent) {
    auto [of_root, of_child] = socket_pair();
    const pid_t child = fork();
    auto o = options(0, 2);
    o.silence = 500ms;
    if (child == 0) {
        of_root.close();
        o.rank = 1;
        o.silence = 1200ms;  // it reports every 300 ms until it is stopped
        Session member(o, std::move(of_child));
        (void)error_of_run([&] { member.join(); });
        for (;;) raise(SIGSTOP);
    }
    of_child.close();
    std::vector<Descriptor> members(2);
    members[1] = std::move(of_root);
    Session root(o, std::move(members));
    EXPECT_EQ(cause_of(root).reason, Reason::silent);
    EXPECT_EQ(root.cause().rank, 1);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
}
TEST_F(SessionOfProcesses, NoneIsSilentBecauseAllStoodStill) {
    const int status = testing_support::after_standstill(2500ms, [](const auto& standstill) {
        Sessions s(2, [](Session::Options& o) { o.silence = 1500ms; });
        for (auto& session : s.all) session->join();
        standstill.ready();
        standstill.wait_until_over();
        std::jthread other([&] { (void)error_of_run([&] { (void)s[1].gather("1"); }); });
        return error_of_run([&] { (void)s[0].gather("0"); }).empty() ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
}
/// Rank 1 waits for a rank whose process is stopped. It has gone on when the deadline is met, and
/// waits for a rank that computes.
TEST_F(SessionOfProcesses, IsLateWhereItsProcessStoodStill) {
    for (const int still : {0, 2}) {
        Ends ends(3);
        int begun[2], goes_on[2];
        ASSERT_EQ(::pipe(begun) | ::pipe(goes_on), 0);
        char c = 0;
        const pid_t child = fork();
        if (child == 0) {
            const auto me = ends.session(still, options(still, 3));
            ends.close();
            me->join();
            (void)!::write(begun[1], "b", 1);
            (void)!::read(goes_on[0], &c, 1);
            const WaitsFor waits(*me, 2 - still);
            (void)!::write(begun[1], "w", 1);
            (void)me->await_cause();
            me->leave();
            ::_exit(me->end(60s) ? 0 : 1);
        }
        const auto other = ends.session(2 - still, options(2 - still, 3));
        const auto waiter = ends.session(1, options(1, 3));
        ends.close();
        waiter->join();
        (void)!::read(begun[0], &c, 1);
        int status = 0;
        ::kill(child, SIGSTOP);
        ::waitpid(child, &status, WUNTRACED);
        {
            const WaitsFor waits(*waiter, still);
            std::this_thread::sleep_for(2s);
            ::kill(child, SIGCONT);
            (void)!::write(goes_on[1], "g", 1);
            (void)!::read(begun[0], &c, 1);
            waiter->blame(still, &waits);
        }
        EXPECT_EQ(cause_of(*waiter).rank, still);
        EXPECT_TRUE(has(waiter->cause().text, "Its process had stood still for"))
            << waiter->cause().text;
        other->leave(), waiter->leave();
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        EXPECT_TRUE(other->end(60s) && waiter->end(60s));
        for (const int fd : {begun[0], begun[1], goes_on[0], goes_on[1]}) ::close(fd);
    }
}
/// A child holds copies of the sockets that its parent has open.
TEST_F(SessionOfProcesses, TheEndOfOneIsSeenThoughItsChildLives) {
    for (const std::size_t gone : {0u, 1u}) {
        Sessions s(2);
        for (auto& session : s.all) session->join();
        const pid_t child = fork();
        if (child == 0)
            for (;;) pause();
        s.all[gone].reset();
        EXPECT_EQ(cause_of(s[1 - gone]).reason, Reason::lost);
        EXPECT_EQ(s[1 - gone].cause().rank, static_cast<int>(gone));
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
}
TEST_F(SessionOfProcesses, AChildMayDestroyItsCopy) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    std::jthread waits([&] { (void)s[1].gather("1"); });
    for (int i = 0; i < 20 && !HasFailure(); ++i)  // before and when that thread begins to wait
        EXPECT_EQ(testing_support::status_of_child([&] {
                      const bool forked = s[0].is_forked() && s[1].is_forked();
                      s.all.clear();
                      return forked ? 0 : 1;
                  }),
                  0);
    EXPECT_FALSE(s[0].is_forked());
    EXPECT_FALSE(s[0].cause().stopped());
    std::jthread other([&] { (void)s[2].gather("2"); });
    EXPECT_EQ(s[0].gather("0"), (std::vector<std::string>{"0", "1", "2"}))
        << "as if there were none";
}
TEST_F(SessionOfProcesses, AChildLeavesTheFileOfItsListener) {
    const testing_support::Folder folder;
    const std::string path = (folder / "socket").string();
    Session root(options(0, 2), {}, Listener("unix:" + path));
    EXPECT_EQ(testing_support::status_of_child([] { return 0; }), 0);
    Session member(options(1, 2), connect_to("unix:" + path, 10s));
    member.join();
}
TEST_F(SessionOfProcesses, AProgramThatClosesAllDescriptorsIsTold) {
    EXPECT_EQ(testing_support::status_of_child([] {
                  Sessions s(2);
                  for (auto& session : s.all) session->join();
                  for (int fd = 3; fd < 256; ++fd) ::close(fd);
                  int told = 0;
                  for (int rank = 0; rank < 2; ++rank) {
                      s[rank].working_on({"a step"});
                      s[rank].note({});  // wakes the monitor
                      const Cause cause = s[rank].await_cause();
                      if (has(cause.text, "this process has closed its connection")) ++told;
                      else if (cause.reason != Reason::lost || cause.rank != 1 - rank) return 2;
                  }
                  return told > 0 ? 0 : 1;  // one may see the other's descriptor closed first
              }),
              0);
}
/// What the program opens has the numbers that these had.
TEST_F(SessionOfProcesses, FilesThatTakeTheNumbersOfDescriptorsStayAsTheyAre) {
    const testing_support::Folder folder;
    EXPECT_EQ(testing_support::status_of_child([&] {
                  const std::string path = "unix:" + (folder / "socket").string();
                  Sessions s(0);
                  s.all.push_back(std::make_unique<Session>(
                      options(0, 2), std::vector<Descriptor>{}, Listener(path)));
                  s.all.push_back(std::make_unique<Session>(options(1, 2), connect_to(path, 60s)));
                  s[1].join();
                  for (int fd = 3; fd < 256; ++fd) ::close(fd);
                  std::vector<int> files;
                  for (int i = 0; i < 20; ++i) {
                      const std::string name = (folder / std::to_string(i).c_str()).string();
                      files.push_back(::open(name.c_str(), O_RDWR | O_CREAT, 0600));
                      if (files.back() < 0) return 2;
                  }
                  for (auto& session : s.all) session->note({});
                  for (auto& session : s.all) (void)session->await_cause();
                  s.all.clear();
                  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
                  return std::ranges::all_of(files, is_open) ? 0 : 1;
              }),
              0);
    for (int i = 0; i < 20; ++i)
        EXPECT_EQ(std::filesystem::file_size(folder / std::to_string(i).c_str()), 0u) << i;
}
TEST_F(SessionOfProcesses, EndsThoughItsDescriptorsAreClosedBehindItsRun) {
    EXPECT_EQ(testing_support::status_of_child([] {
                  Sessions s(2);
                  for (auto& session : s.all) session->join();
                  for (auto& session : s.all) session->leave();
                  for (const std::size_t r : {1u, 0u})
                      if (!s[r].end(60s)) return 1;
                  for (int fd = 3; fd < 256; ++fd) ::close(fd);
                  s.all.clear();
                  return 0;
              }),
              0);
}
/// Its copy of a session may be gone by then, as on the stack of a thread that it does not have.
TEST_F(SessionOfProcesses, AChildMayForkAgain) {
    Sessions s(2);
    for (auto& session : s.all) session->join();
    EXPECT_EQ(testing_support::status_of_child([&] {
                  Session* const copy = s.all[0].release();
                  const auto* const bytes = reinterpret_cast<const unsigned char*>(copy);
                  std::memset(static_cast<void*>(copy), 0x55, sizeof(Session));
                  const int status = status_of_child([&] {
                      const auto is_other = [](unsigned char byte) { return byte != 0x55; };
                      return std::any_of(bytes, bytes + sizeof(Session), is_other) ? 1 : 0;
                  });
                  return status == 0 ? 0 : 1;
              }),
              0);
}
/// Which may interrupt the thread within a call of a session.
TEST_F(SessionOfProcesses, AHandlerOfASignalMayFork) {
    static std::atomic<int> forks = 0;
    EXPECT_EQ(testing_support::status_of_child([] {
                  Sessions s(2);
                  for (auto& session : s.all) session->join();
                  struct sigaction forking{};
                  forking.sa_handler = [](int) {
                      const pid_t child = fork();
                      if (child == 0) ::_exit(0);
                      if (child > 0 && ::waitpid(child, nullptr, 0) == child) ++forks;
                  };
                  (void)::sigaction(SIGVTALRM, &forking, nullptr);
                  const itimerval often{{0, 1000}, {0, 1000}}, never{};
                  (void)::setitimer(ITIMER_VIRTUAL, &often, nullptr);
                  while (forks < 30) s[0].working_on({"a step"});
                  (void)::setitimer(ITIMER_VIRTUAL, &never, nullptr);
                  return 0;
              }),
              0);
}
TEST_F(SessionOfProcesses, AnOrphanEndsItself) {
    auto [of_root, of_child] = socket_pair();
    const pid_t child = fork();
    if (child == 0) {
        of_root.close();
        auto o = options(1, 2);
        o.outlive_root = 1ms;
        Session member(o, std::move(of_child));
        for (;;) pause();
    }
    of_child.close();
    of_root.close();
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

}  // namespace
