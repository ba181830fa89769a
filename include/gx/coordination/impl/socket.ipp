// Sockets: the system calls.
#pragma once

#include <arpa/inet.h>    // inet_ntop
#include <fcntl.h>        // fcntl
#include <netdb.h>        // getaddrinfo
#include <netinet/in.h>   // ports
#include <netinet/tcp.h>  // TCP_NODELAY
#include <poll.h>         // poll
#include <sys/socket.h>   // socket
#include <sys/stat.h>     // chmod, stat
#include <sys/un.h>       // sockaddr_un
#include <unistd.h>       // close

#include <algorithm>  // clamp
#include <cerrno>     // errno
#include <cstring>    // strerror
#include <memory>     // addrinfo
#include <vector>     // addresses

#include <gx/coordination/socket.hpp>   // the declarations
#include <gx/core/detail/patience.hpp>  // Patience
#include <gx/core/error.hpp>            // Error

namespace gx::coordination {

namespace detail::socket {

struct Parsed {
    std::string path{};          ///< of a Unix-domain socket
    std::string host{}, port{};  ///< of a TCP socket
};

inline Parsed parse(std::string_view address) {
    const std::string text(address);
    if (address.starts_with("unix:")) {
        const std::string path = text.substr(5);
        if (path.empty() || path.size() >= sizeof(sockaddr_un{}.sun_path))
            throw Error("address '" + text + "': the path of a socket has 1 to " +
                        std::to_string(sizeof(sockaddr_un{}.sun_path) - 1) + " characters");
        return {.path = path};
    }
    const std::size_t colon = text.rfind(':');
    if (!address.starts_with("tcp:") || colon < 5 || colon == text.npos)
        throw Error("address '" + text + "' is none: write unix:PATH or tcp:HOST:PORT");
    std::string host = text.substr(4, colon - 4), port = text.substr(colon + 1);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    const bool digits = !port.empty() && port.size() <= 5 &&
                        std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
    if (!digits || std::stoi(port) > 65535)
        throw Error("address '" + text + "': '" + port + "' is no port; write 0 to 65535");
    return {.host = host, .port = port};
}

inline constexpr const char* raise_open_files =
    "; raise the limit of open files (ulimit -n) or use fewer ranks";
inline bool is_of_open_files(int error) { return error == EMFILE || error == ENFILE; }

[[noreturn]] inline void fail(std::string_view address, std::string_view what) {
    const int error = errno;
    const std::string text =
        "address '" + std::string(address) + "' " + std::string(what) + ": " + std::strerror(error);
    if (is_of_open_files(error)) throw NoDescriptorLeft(text + raise_open_files);
    throw Error(text);
}

/// Of a descriptor, what no other open file or socket has; {} of none.
inline std::pair<dev_t, ino_t> file_of(int descriptor) {
    struct stat s{};
    if (::fstat(descriptor, &s) != 0) return {};
    return {s.st_dev, s.st_ino};
}

inline sockaddr_un unix_address(const std::string& path) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    std::memcpy(a.sun_path, path.data(), path.size());
    return a;
}

/// A temporary failure of DNS (EAI_AGAIN).
struct NotKnownYet : Error {
    using Error::Error;
};

using Found = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;
inline Found find_host(std::string_view address, const Parsed& p, bool listening) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | (listening ? AI_PASSIVE : 0);
    const int error = ::getaddrinfo(p.host.c_str(), p.port.c_str(), &hints, &found);
    if (error == 0) return {found, ::freeaddrinfo};
    // Without a descriptor for /etc/hosts a name is not known.
    const Descriptor one(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!one && is_of_open_files(errno)) fail(address, "can't be looked up");
    const std::string sentence = "address '" + std::string(address) + "': host '" + p.host +
                                 "' is not known: " + ::gai_strerror(error);
    if (error == EAI_AGAIN) throw NotKnownYet(sentence);
    throw Error(sentence);
}

/// Its addresses in the order in which they are tried: of IPv4 first.
inline std::vector<const addrinfo*> in_order(const Found& found) {
    std::vector<const addrinfo*> all;
    for (const bool ipv4 : {true, false})
        for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next)
            if ((a->ai_family == AF_INET) == ipv4) all.push_back(a);
    return all;
}

/// A host that vanishes sends nothing: the kernel asks after a second, and gives up after three.
inline void notice_vanished_hosts(int socket) {
    const auto set = [&](int level, int name, int value) {
        ::setsockopt(socket, level, name, &value, sizeof(value));
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 3000);
}

/// connect() that returns after `limit`, or once `patience` has ended. False, with errno, where it
/// fails.
inline bool connect_within(int socket, const sockaddr* a, socklen_t size, Duration limit,
                           gx::detail::Patience& patience) {
    const int flags = ::fcntl(socket, F_GETFL);
    if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0) return false;
    if (::connect(socket, a, size) != 0) {
        if (errno != EINPROGRESS) return false;
        pollfd p{.fd = socket, .events = POLLOUT, .revents = 0};
        const Duration end = saturating_sum(steady_now(), limit);
        int ready = 0;
        do {
            const Duration look = patience.next_look().time_since_epoch();
            ready = ::poll(&p, 1, milliseconds_until(std::min(look, end)));
        } while (ready <= 0 && (ready == 0 || errno == EINTR) && !patience.ended() &&
                 steady_now() < end);
        int error = ETIMEDOUT;
        socklen_t bytes = sizeof(error);
        if (ready > 0) ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
        errno = error;
        if (error != 0) return false;
    }
    return ::fcntl(socket, F_SETFL, flags) == 0;
}

inline constexpr std::chrono::seconds longest_attempt{5};  // of one address

/// Whether nobody listened, and the system connected the socket to itself, as it may where the port
/// is one that it gives to connections: a simultaneous open. Such a one does not hold the port when
/// it is closed.
inline bool is_connected_to_itself(int socket) {
    sockaddr_storage own{}, peer{};
    socklen_t size = sizeof(own), peer_size = sizeof(peer);
    if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0 ||
        ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0 ||
        size != peer_size || std::memcmp(&own, &peer, size) != 0)
        return false;
    const ::linger at_once{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    return true;
}

/// Whether the other side may not be there yet.
inline bool is_not_yet(int error) {
    return error == ECONNREFUSED || error == ENOENT || error == EAGAIN || error == ETIMEDOUT ||
           error == EINTR || error == EHOSTUNREACH || error == ENETUNREACH;
}

/// One attempt, in which each address of the host gets its share of what is left of `patience`,
/// and at most `limit` where there are several; none, with errno, where it fails: that of an
/// address that may come to answer, if there is one.
inline Descriptor try_connect(std::string_view address, const Parsed& p, Duration limit,
                              gx::detail::Patience& patience) {
    if (!p.path.empty()) {
        Descriptor s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const sockaddr_un a = unix_address(p.path);
        const auto* const at = reinterpret_cast<const sockaddr*>(&a);
        if (s && connect_within(s.get(), at, sizeof(a), limit, patience)) return s;
        return {};
    }
    const Found found = find_host(address, p, false);
    patience.skip();  // a name server may have taken seconds
    const std::vector<const addrinfo*> all = in_order(found);
    if (all.size() == 1) limit = longest_attempt;
    auto left = std::ssize(all);
    int error = 0;
    for (const addrinfo* const a : all) {
        Descriptor s(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
        const Duration share = std::min(limit, patience.left() / left--);
        if (s && connect_within(s.get(), a->ai_addr, a->ai_addrlen, share, patience)) {
            notice_vanished_hosts(s.get());
            if (!is_connected_to_itself(s.get())) return s;
            errno = ECONNREFUSED;
        }
        if (error == 0 || !is_not_yet(error)) error = errno;
    }
    errno = error;
    return {};
}

inline Descriptor listen_at_path(std::string_view address, const Parsed& p) {
    Descriptor s(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_un a = unix_address(p.path);
    struct stat old{};
    const bool is_socket = ::lstat(p.path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode);
    gx::detail::Patience none(Duration(0));
    if (is_socket && !try_connect(address, p, Duration(0), none) && errno == ECONNREFUSED)
        ::unlink(p.path.c_str());
    if (!s || ::bind(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof(a)) != 0)
        fail(address, "can't be listened to");
    if (::chmod(p.path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(s.get(), SOMAXCONN) != 0)
        fail(address, "can't be listened to");
    return s;
}

// Another program at an address that others try earlier would be taken for this one.
inline Descriptor listen_at_host(std::string_view address, const Parsed& p) {
    const Found found = find_host(address, p, true);
    for (const addrinfo* const a : in_order(found)) {
        Descriptor s(
            ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol));
        const int yes = 1;
        if (!s) continue;
        ::setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        const int no = 0;  // "[::]" is every address of either kind
        if (a->ai_family == AF_INET6)
            ::setsockopt(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
        if (::bind(s.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(s.get(), SOMAXCONN) == 0)
            return s;
        if (errno == EADDRINUSE) break;
    }
    fail(address, "can't be listened to");
}

inline int port_of(int socket) {
    sockaddr_storage a{};
    socklen_t size = sizeof(a);
    ::getsockname(socket, reinterpret_cast<sockaddr*>(&a), &size);
    if (a.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6&>(a).sin6_port);
    return ntohs(reinterpret_cast<sockaddr_in&>(a).sin_port);
}

}  // namespace detail::socket

GX_DECL Descriptor::Descriptor(int number) : number_(number) {
    if (number < 0) return;
    if (number <= STDERR_FILENO)
        if (const int other = ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1); other >= 0) {
            ::close(number);
            number_ = other;
        }
    file_ = detail::socket::file_of(number_);
}

GX_DECL void Descriptor::close() {
    if (is_open()) ::close(number_);
    number_ = -1;
}

GX_DECL bool Descriptor::is_open() const {
    return number_ >= 0 && detail::socket::file_of(number_) == file_;
}

GX_DECL std::string advice_on(const Error& e, std::string_view advice) {
    if (dynamic_cast<const NoDescriptorLeft*>(&e) != nullptr) return "";
    return ". " + std::string(advice);
}

GX_DECL std::pair<Descriptor, Descriptor> socket_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        throw NoDescriptorLeft(std::string("a pair of sockets can't be made: ") +
                               std::strerror(errno) + detail::socket::raise_open_files);
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

GX_DECL void Waker::wake() const {
    const char one = 1;
    const Descriptor& to = sockets_.first;
    if (to.is_open()) (void)::send(to.get(), &one, sizeof(one), MSG_DONTWAIT | MSG_NOSIGNAL);
}

GX_DECL void Waker::drain() {
    Descriptor& from = sockets_.second;
    char bytes[64];
    ssize_t n = std::ssize(bytes);
    while (n == std::ssize(bytes))
        n = from.is_open() ? ::recv(from.get(), bytes, sizeof(bytes), MSG_DONTWAIT) : 0;
    if (n == 0 || !sockets_.first.is_open()) (void)from.release();
}

GX_DECL Listener::Listener(std::string_view address) {
    const auto p = detail::socket::parse(address);
    if (!p.path.empty()) {
        socket_ = detail::socket::listen_at_path(address, p);
        address_ = address;
        file_ = p.path;
        return;
    }
    socket_ = detail::socket::listen_at_host(address, p);
    const bool v6 = p.host.find(':') != p.host.npos;
    address_ = "tcp:" + (v6 ? "[" + p.host + "]" : p.host) + ":" +
               std::to_string(detail::socket::port_of(socket_.get()));
}

GX_DECL Listener::~Listener() {
    if (!file_.empty()) ::unlink(file_.c_str());
}

GX_DECL Descriptor Listener::accept() {
    if (!socket_.is_open()) {
        errno = EBADF;
        return {};
    }
    Descriptor s(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (s && file_.empty()) detail::socket::notice_vanished_hosts(s.get());
    return s;
}

GX_DECL bool no_descriptor_is_left(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

GX_DECL std::string not_accepted(int rank, int error) {
    return "rank " + std::to_string(rank) + " can't accept a connection: " + std::strerror(error) +
           (detail::socket::is_of_open_files(error) ? detail::socket::raise_open_files : "");
}

GX_DECL Descriptor connect_to(std::string_view address, Duration limit) {
    const auto parsed = detail::socket::parse(address);
    const Duration end = saturating_sum(steady_now(), limit);  // of waits for a name server
    gx::detail::Patience patience(limit);
    // Of an address: short at first, as another one of the host may be the one that answers.
    Duration attempt = std::chrono::milliseconds(400);
    for (int pause = 1;; pause = std::min(2 * pause, 200)) {
        try {
            if (Descriptor s = detail::socket::try_connect(address, parsed, attempt, patience))
                return s;
            attempt = std::min<Duration>(2 * attempt, detail::socket::longest_attempt);
            if (!detail::socket::is_not_yet(errno) || patience.ended())
                detail::socket::fail(address, "can't be reached");
        } catch (const detail::socket::NotKnownYet&) {
            if (steady_now() >= end) throw;
        }
        ::poll(nullptr, 0, pause);
    }
}

GX_DECL std::string every_host() {
    const Descriptor s(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 every{};  // at a free port
    every.sin6_family = AF_INET6;
    const auto* const address = reinterpret_cast<const sockaddr*>(&every);
    return s && ::bind(s.get(), address, sizeof(every)) == 0 ? "[::]" : "0.0.0.0";
}

GX_DECL std::string listening_host(const std::string& host) {
    if (host == "localhost" || host == "[::1]" || host.starts_with("127.")) return host;
    return every_host();
}

GX_DECL std::string host_of(const Descriptor& connection) {
    sockaddr_storage a{};
    socklen_t size = sizeof(a);
    char host[INET6_ADDRSTRLEN] = {};
    if (::getsockname(connection.get(), reinterpret_cast<sockaddr*>(&a), &size) != 0) return "";
    if (a.ss_family == AF_INET)
        return ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(a).sin_addr, host,
                           sizeof(host));
    if (a.ss_family != AF_INET6) return "";
    const in6_addr& address = reinterpret_cast<sockaddr_in6&>(a).sin6_addr;
    return "[" + std::string(::inet_ntop(AF_INET6, &address, host, sizeof(host))) + "]";
}

GX_DECL std::string host_name() {
    char name[256] = {};
    ::gethostname(name, sizeof(name) - 1);
    return name;
}

GX_DECL Duration steady_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

GX_DECL int milliseconds_until(Duration end) {
    if (end == Duration::max()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - steady_now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1'000'000'000));
}

}  // namespace gx::coordination
