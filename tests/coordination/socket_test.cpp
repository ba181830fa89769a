#include <gx/coordination/socket.hpp>

#include <fcntl.h>       // fcntl
#include <net/if.h>      // ifreq
#include <netinet/in.h>  // sockaddr_in
#include <poll.h>        // poll
#include <sched.h>       // unshare
#include <sys/ioctl.h>   // a loopback interface
#include <sys/mount.h>   // another resolv.conf
#include <sys/resource.h>
#include <sys/socket.h>  // send, recv
#include <sys/stat.h>    // mode of a socket
#include <sys/un.h>      // sockaddr_un
#include <sys/wait.h>    // waitpid

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include <gx/core/error.hpp>  // Error

#include <support/files.hpp>          // Folder, error_of
#include <testing/processes_run.hpp>  // WithProcesses

namespace {

using namespace gx::coordination;
using namespace std::chrono_literals;

template <class F>
std::string sentence_of(F f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

TEST(Socket, ADescriptorIsClosedOnce) {
    auto [a, b] = socket_pair();
    const int number = a.get();
    Descriptor moved = std::move(a);
    EXPECT_FALSE(a);  // NOLINT: what is left of it
    EXPECT_EQ(moved.get(), number);
    EXPECT_NE(::fcntl(number, F_GETFD) & FD_CLOEXEC, 0);
    moved.close();
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    char none = 0;
    EXPECT_EQ(::recv(b.get(), &none, 1, 0), 0) << "the other end sees it";
}

TEST(Socket, ADescriptorThatTheProgramHasClosedIsLeftAlone) {
    auto [a, b] = socket_pair();
    const int number = a.get();
    ::close(number);
    ASSERT_EQ(::fcntl(b.get(), F_DUPFD, number), number) << "the number is another file's now";
    a.close();
    EXPECT_GE(::fcntl(number, F_GETFD), 0);
    ::close(number);
}
TEST(Socket, AWakerIsReportedUntilItIsDrained) {
    gx::coordination::Waker waker;
    const auto is_reported = [&] {
        pollfd p{.fd = waker.get(), .events = POLLIN, .revents = 0};
        return ::poll(&p, 1, 0) == 1;
    };
    EXPECT_FALSE(is_reported());
    for (int i = 0; i < 200; ++i) waker.wake();
    EXPECT_TRUE(is_reported());
    waker.drain();
    EXPECT_FALSE(is_reported());
    EXPECT_TRUE(waker);
    waker.close();
    waker.wake();
    EXPECT_FALSE(waker);
    EXPECT_EQ(waker.get(), -1) << "poll() passes over it";
}
TEST(Socket, ADescriptorTakesNoNumberOfAStandardStream) {
    const int kept = ::dup(STDERR_FILENO);
    ::close(STDERR_FILENO);
    {
        auto [a, b] = socket_pair();
        EXPECT_GT(a.get(), STDERR_FILENO);
        EXPECT_GT(b.get(), STDERR_FILENO);
        EXPECT_NE(::fcntl(a.get(), F_GETFD) & FD_CLOEXEC, 0);
        EXPECT_EQ(::fcntl(STDERR_FILENO, F_GETFD), -1) << "what is written there goes nowhere";
    }
    ::dup2(kept, STDERR_FILENO);
    ::close(kept);
}

void expect_talk(const std::string& address) {
    Listener listener(address);
    EXPECT_FALSE(listener.accept()) << "nobody is there, and it does not block";
    const Descriptor mine = connect_to(listener.address(), 60s);
    Descriptor theirs;
    while (!theirs) theirs = listener.accept();
    ASSERT_EQ(::send(mine.get(), "x", 1, 0), 1);
    char got = 0;
    ASSERT_EQ(::recv(theirs.get(), &got, 1, 0), 1);
    EXPECT_EQ(got, 'x');
}
TEST(Socket, TalksOverAPathAndOverTcp) {
    const testing_support::Folder folder;
    expect_talk("unix:" + (folder / "socket").string());
    expect_talk("tcp:127.0.0.1:0");
}
// A host's name may have addresses of either kind alone.
TEST(Socket, WhoListensForANameIsReachedByItsAddressesOfEitherKind) {
    EXPECT_EQ(listening_host("localhost"), "localhost");
    EXPECT_EQ(listening_host("127.0.0.7"), "127.0.0.7");
    EXPECT_EQ(listening_host("[::1]"), "[::1]");
    const Listener listener("tcp:" + listening_host("node") + ":0");
    const std::string port = listener.address().substr(listener.address().rfind(':'));
    EXPECT_TRUE(connect_to("tcp:127.0.0.1" + port, 60s));
    try {
        const Listener loopback("tcp:[::1]:0");
    } catch (const gx::Error&) {
        GTEST_SKIP() << "skipped: the system has no IPv6";
    }
    EXPECT_EQ(listening_host("node"), "[::]");
    EXPECT_TRUE(connect_to("tcp:[::1]" + port, 60s));
}
TEST(Socket, AFreePortIsNamed) {
    const Listener listener("tcp:127.0.0.1:0");
    EXPECT_TRUE(listener.address().starts_with("tcp:127.0.0.1:")) << listener.address();
    EXPECT_NE(listener.address(), "tcp:127.0.0.1:0");
}
TEST(Socket, ThePathIsForThisUserAndIsRemoved) {
    const testing_support::Folder folder;
    const std::string path = (folder / "socket").string();
    {
        const Listener listener("unix:" + path);
        struct stat found{};
        ASSERT_EQ(::stat(path.c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 0777, 0600u);
        EXPECT_TRUE(sentence_of([&] {
                        Listener second("unix:" + path);
                    }).find("can't be listened") != std::string::npos)
            << "somebody listens there";
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}
TEST(Socket, AStaleSocketIsReplacedAndAFileIsNot) {
    const testing_support::Folder folder;
    const std::string path = (folder / "socket").string(), file = (folder / "file").string();
    Listener first("unix:" + path);
    std::filesystem::create_hard_link(path, folder / "stale");
    const std::string stale = (folder / "stale").string();
    {
        const Listener gone = std::move(first);
    }
    EXPECT_TRUE(std::filesystem::exists(stale)) << "a socket nobody listens to";
    const Listener second("unix:" + stale);
    std::ofstream(file) << "words";
    EXPECT_NE(sentence_of([&] { Listener no("unix:" + file); }), "");
    EXPECT_EQ(std::filesystem::file_size(file), 5u);
}
TEST(Socket, TextThatIsNoAddress) {
    for (const char* bad : {"", "tcp:", "tcp:a", "tcp:a:", "tcp:a:x", "tcp:a:65536", "tcp:a:123456",
                            "host:1", "unix:", "udp:a:1"})
        EXPECT_NE(sentence_of([&] { Listener no(bad); }).find("address '" + std::string(bad) + "'"),
                  std::string::npos)
            << bad;
    EXPECT_NE(sentence_of([] { Listener no("unix:" + std::string(200, 'x')); }), "");
}
TEST(Socket, ARootThatDoesNotListenIsNamed) {
    const testing_support::Folder folder;
    const std::string address = "unix:" + (folder / "socket").string();
    const std::string text = sentence_of([&] { (void)connect_to(address, 0s); });
    EXPECT_NE(text.find("'" + address + "' can't be reached"), text.npos) << text;
}

/// A network of this thread alone, with a loopback interface. False where there is none.
bool has_network_of_its_own() {
    if (::unshare(CLONE_NEWNET) != 0) return false;
    const Descriptor s(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback{};
    std::ranges::copy(std::string_view("lo"), loopback.ifr_name);
    loopback.ifr_flags = IFF_UP;
    return ::ioctl(s.get(), SIOCSIFFLAGS, &loopback) == 0;
}
/// Where the only port for connections is that of the address, the system connects a socket to
/// itself (a simultaneous open), at the first attempt.
TEST(Socket, AnAddressWhereNobodyListensIsNotReachedByTheSocketItself) {
    std::jthread([] {
        if (!has_network_of_its_own()) GTEST_SKIP() << "skipped: it needs root";
        std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40002 40003" << std::flush;
        for (const std::string address : {"tcp:127.0.0.1:40002", "tcp:[::1]:40002"}) {
            const std::string text = sentence_of([&] { (void)connect_to(address, 50ms); });
            if (text.find("Cannot assign") != text.npos) continue;  // no IPv6
            EXPECT_EQ(text, "address '" + address + "' can't be reached: Connection refused");
            EXPECT_EQ(sentence_of([&] { const Listener root(address); }), "");
        }
    });
}

/// `file` in the place of a file of the system's, for this thread alone. False where it can't be.
bool mounts(const std::filesystem::path& file, const char* over) {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
           ::mount(file.c_str(), over, nullptr, MS_BIND, nullptr) == 0;
}
/// As Debian's own file of hosts has it: who connects to the name tries 127.0.0.1 first.
TEST(Socket, WhoListensForANameTakesTheAddressThatOthersTryFirst) {
    const testing_support::Folder folder;
    std::ofstream(folder / "hosts") << "127.0.0.1 localhost\n::1 localhost\n";
    std::jthread([&] {
        if (!mounts(folder / "hosts", "/etc/hosts")) GTEST_SKIP() << "skipped: it needs root";
        const Listener other("tcp:127.0.0.1:0");
        const std::string address = "tcp:localhost" + other.address().substr(13);
        EXPECT_EQ(sentence_of([&] { const Listener root(address); }),
                  "address '" + address + "' can't be listened to: Address already in use");
        const Listener root("tcp:localhost:0");
        const std::string where = "tcp:127.0.0.1" + root.address().substr(13);
        EXPECT_EQ(sentence_of([&] { (void)connect_to(where, 0s); }), "");
    });
}

/// A DNS server: SERVFAIL for the first query of each type, then A 127.0.0.1 and AAAA ::1.
void serve_names(int socket, std::atomic<int>& queries) {
    for (char packet[512];;) {
        sockaddr_in from{};
        socklen_t size = sizeof(from);
        auto* const at = reinterpret_cast<sockaddr*>(&from);
        const auto n = ::recvfrom(socket, packet, sizeof(packet) - 32, 0, at, &size);
        if (n < 17) return;
        std::size_t end = 12;  // behind the header: the name, its type and class
        while (end < std::size_t(n) && packet[end] != 0) end += 1 + std::size_t(packet[end]);
        end += 5;
        const bool fails = queries++ < 2;  // one for each kind of address
        const char type = packet[end - 3];
        packet[2] = char(0x81), packet[3] = fails ? 2 : 0;
        for (int i = 6; i < 12; ++i) packet[i] = 0;
        std::string answer = {char(0xC0), 12, 0, type, 0, 1,
                              0,          0,  0, 60,   0};  // the name, ..., 60 s
        if (type == 1) answer += std::string{4, 127, 0, 0, 1};
        else answer += char(16) + std::string(15, 0) + char(1);
        if (fails) answer.clear();
        else packet[7] = 1;
        std::ranges::copy(answer, packet + end);
        (void)::sendto(socket, packet, end + answer.size(), 0, at, size);
    }
}
/// In a child of its own. 0: connected; 1: not; 2: by IPv6, which the other hosts of a run may not
/// have; 77: its names can't be served here.
int connect_where_names_come_late() {
    const testing_support::Folder folder;
    const auto file = folder / "resolv.conf";
    std::ofstream(file) << "nameserver 127.0.0.57\noptions timeout:5 attempts:1\n";
    sockaddr_in a{};
    a.sin_family = AF_INET, a.sin_port = htons(53), a.sin_addr.s_addr = htonl(0x7F000039);
    const Descriptor names(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::bind(names.get(), reinterpret_cast<sockaddr*>(&a), sizeof(a)) != 0 ||
        !mounts(file, "/etc/resolv.conf"))
        return 77;
    std::atomic<int> queries = 0;
    std::thread server([&] { serve_names(names.get(), queries); });
    const Listener listener("tcp:" + every_host() + ":0");
    const std::string& bound = listener.address();
    std::string host;
    const std::string text = sentence_of([&] {
        host = host_of(connect_to("tcp:node17.example" + bound.substr(bound.rfind(':')), 60s));
    });
    ::shutdown(names.get(), SHUT_RDWR);
    server.join();
    ::umount("/etc/resolv.conf");
    if (queries == 0) return 77;
    if (!text.empty()) std::fputs(text.c_str(), stderr);
    if (!text.empty()) return 1;
    return host == "127.0.0.1" ? 0 : 2;
}
/// As where the name of rank 0's host appears with its container.
class NameServer : public testing_support::WithProcesses {};
TEST_F(NameServer, IsWaitedFor) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(connect_where_names_come_late());
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "skipped: it needs root and another resolv.conf";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}
TEST(Socket, WithoutDescriptorsTheLimitIsNamed) {
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    rlimit none = before;
    none.rlim_cur = rlim_t(next);
    ::setrlimit(RLIMIT_NOFILE, &none);
    const std::string listens = sentence_of([] { Listener no("tcp:127.0.0.1:0"); });
    const std::string connects = sentence_of([] { (void)connect_to("tcp:127.0.0.1:9", 1s); });
    const std::string finds = sentence_of([] { (void)connect_to("tcp:localhost:9", 1s); });
    ::setrlimit(RLIMIT_NOFILE, &before);
    const std::string advice =
        ": Too many open files; raise the limit of open files (ulimit -n) or use fewer ranks";
    EXPECT_EQ(listens, "address 'tcp:127.0.0.1:0' can't be listened to" + advice);
    EXPECT_EQ(connects, "address 'tcp:127.0.0.1:9' can't be reached" + advice);
    EXPECT_EQ(finds, "address 'tcp:localhost:9' can't be looked up" + advice);
    EXPECT_EQ(advice_on(NoDescriptorLeft(finds), "Open ports"), "");
    EXPECT_EQ(advice_on(gx::Error("refused"), "Open ports"), ". Open ports");
}

// A full queue of a listener: no connection comes to be, and none is refused.
void expect_given_up_at(const std::string& address, int family, const sockaddr* at, socklen_t size,
                        std::chrono::nanoseconds limit) {
    std::vector<Descriptor> waiting;
    for (int i = 0; i < 4; ++i) {
        waiting.emplace_back(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        (void)::connect(waiting.back().get(), at, size);
    }
    const std::string text = sentence_of([&] { (void)connect_to(address, limit); });
    EXPECT_NE(text.find("can't be reached"), text.npos) << text;
}
void expect_given_up_at_a_port(std::chrono::nanoseconds limit) {
    const Descriptor full(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(a);
    auto* at = reinterpret_cast<sockaddr*>(&a);
    ASSERT_EQ(::bind(full.get(), at, size), 0);
    ASSERT_EQ(::listen(full.get(), 0), 0);
    ASSERT_EQ(::getsockname(full.get(), at, &size), 0);
    expect_given_up_at("tcp:127.0.0.1:" + std::to_string(ntohs(a.sin_port)), AF_INET, at, size,
                       limit);
}
TEST(Socket, AnAttemptThatHangsEndsWithTheLimit) {
    const testing_support::Folder folder;
    const std::string path = (folder / "socket").string();
    {
        const Descriptor full(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un a{};
        a.sun_family = AF_UNIX;
        path.copy(a.sun_path, sizeof(a.sun_path) - 1);
        const auto* at = reinterpret_cast<const sockaddr*>(&a);
        ASSERT_EQ(::bind(full.get(), at, sizeof(a)), 0);
        ASSERT_EQ(::listen(full.get(), 0), 0);
        expect_given_up_at("unix:" + path, AF_UNIX, at, sizeof(a), 50ms);
    }
    expect_given_up_at_a_port(50ms);
}
/// Longer limits are kept too: what an attempt takes is no standstill.
TEST(Socket, ManyAttemptsThatHangEndWithTheLimit) {
    const auto begun = std::chrono::steady_clock::now();
    expect_given_up_at_a_port(12s);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, 30s);
}
TEST(Socket, AConnectionWaitsForItsBytes) {
    const testing_support::Folder folder;
    for (const std::string& address :
         {"unix:" + (folder / "socket").string(), std::string("tcp:127.0.0.1:0")}) {
        const Listener listener(address);
        const Descriptor s = connect_to(listener.address(), 60s);
        EXPECT_EQ(::fcntl(s.get(), F_GETFL) & O_NONBLOCK, 0) << address;
    }
}

}  // namespace
