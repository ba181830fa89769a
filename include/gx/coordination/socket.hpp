// Sockets of the coordination channel: descriptors, addresses, listening and connecting.
#pragma once

#include <sys/types.h>  // dev_t, ino_t

#include <string>       // addresses
#include <string_view>  // addresses
#include <utility>      // exchange, move, pair

#include <gx/coordination/message.hpp>  // Duration
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/core/error.hpp>            // Error

namespace gx::coordination {

/// A file descriptor that is closed with its owner; -1: none. One that the program has closed
/// itself is left alone, whatever file has its number by then.
class Descriptor {
public:
    Descriptor() = default;
    /// Takes it; where the program has closed one of the standard streams, under another number
    /// than that stream's, which others write to.
    explicit Descriptor(int number);
    Descriptor(Descriptor&& other) noexcept { *this = std::move(other); }
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        std::swap(file_, other.file_);
        return *this;
    }
    ~Descriptor() { close(); }

    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] explicit operator bool() const { return number_ >= 0; }
    void close();
    /// Whether the program has not closed it itself.
    [[nodiscard]] bool is_open() const;
    /// The number, which is not closed here.
    [[nodiscard]] int release() { return std::exchange(number_, -1); }

private:
    std::pair<dev_t, ino_t> file_{};
    int number_ = -1;
};

/// No file descriptor is left in the process (EMFILE) or the system (ENFILE); the error text
/// contains the remedy.
struct NoDescriptorLeft : Error {
    using Error::Error;
};
/// What to append to the error text of a connection that failed with `e`: ". " and `advice`, or
/// nothing where that text contains a remedy.
[[nodiscard]] GX_DECL std::string advice_on(const Error& e, std::string_view advice);

/// Two connected stream sockets that are closed by exec.
/// Errors: gx::Error where the system has none left.
[[nodiscard]] GX_DECL std::pair<Descriptor, Descriptor> socket_pair();

/// Ends the sleep of a thread that polls get(), by a byte in one of two sockets.
class Waker {
public:
    /// Errors: those of socket_pair().
    Waker() : sockets_(socket_pair()) {}
    /// On any thread.
    void wake() const;
    /// What poll() reports where wake() was called; -1 where it no longer can.
    [[nodiscard]] int get() const { return sockets_.second.get(); }
    /// Whether get() may still report: not where the program was seen to have closed one of the
    /// two, and the polling thread looks by the clock.
    [[nodiscard]] explicit operator bool() const { return bool(sockets_.second); }
    /// On the polling thread, where get() was reported, or nothing for a while.
    void drain();
    void close() { sockets_ = {}; }

private:
    std::pair<Descriptor, Descriptor> sockets_;  // to write to, and to poll
};

/// A socket that others connect to. Its file, if it has one, is removed with it.
class Listener {
public:
    /// `address`: "unix:PATH" or "tcp:HOST:PORT"; port 0 takes a free one; an IPv6 host stands in
    /// brackets, and [::] is every address, of IPv4 too; of a name's addresses, the first of this
    /// machine in the order of connect_to(). The file of a socket without a listening process is
    /// replaced; only this user may connect to it.
    /// Errors: gx::Error for text that is no address, and where it can't be listened to.
    explicit Listener(std::string_view address);
    Listener(Listener&& other) noexcept
        : socket_(std::move(other.socket_)),
          address_(std::move(other.address_)),
          file_(std::exchange(other.file_, {})) {}
    Listener& operator=(Listener&&) = delete;
    ~Listener();

    [[nodiscard]] int get() const { return socket_.get(); }
    /// The program has closed the socket itself.
    void release() { (void)socket_.release(); }
    /// The file stays when this is destroyed: another process listens there.
    void leave_file() { file_.clear(); }
    /// What others connect to: `address` with the port that was taken.
    [[nodiscard]] const std::string& address() const { return address_; }
    /// The next pending connection; none, with errno, if none is pending (EAGAIN) or accept(2)
    /// fails. Does not block.
    [[nodiscard]] Descriptor accept();

private:
    Descriptor socket_{};
    std::string address_{}, file_{};
};

/// Connects to an address of Listener's form. Retries until `limit` has passed while the connection
/// is refused, there is no route, or DNS fails temporarily (EAI_AGAIN). IPv4 addresses of a name
/// are tried before its IPv6 addresses, which some hosts of a run may not reach. A DNS lookup may
/// exceed the limit. Errors: gx::Error.
[[nodiscard]] GX_DECL Descriptor connect_to(std::string_view address, Duration limit);

/// The host of a Listener at all interfaces: "[::]", of IPv4 too, where the system has IPv6, else
/// "0.0.0.0".
[[nodiscard]] GX_DECL std::string every_host();
/// The host of a Listener that others reach as `host`, an IPv6 address in brackets: a loopback
/// address is its own, else all interfaces are listened to; of a name's addresses others may take
/// any.
[[nodiscard]] GX_DECL std::string listening_host(const std::string& host);

/// The IP address of this machine that the other end of a TCP connection sees. An IPv6 address is
/// in brackets. "" of any other socket.
[[nodiscard]] GX_DECL std::string host_of(const Descriptor& connection);

/// Whether this errno means that file descriptors or memory are exhausted.
[[nodiscard]] GX_DECL bool no_descriptor_is_left(int error);
/// That rank `rank` can't accept a connection for this errno, with the remedy of a limit of files.
[[nodiscard]] GX_DECL std::string not_accepted(int rank, int error);

/// The name of this machine.
[[nodiscard]] GX_DECL std::string host_name();

/// Now on the steady clock.
[[nodiscard]] GX_DECL Duration steady_now();

/// Milliseconds from now until `end`, for poll(): rounded up, -1 for max().
[[nodiscard]] GX_DECL int milliseconds_until(Duration end);

}  // namespace gx::coordination

#if defined(GX_HEADER_ONLY)
#include <gx/coordination/impl/socket.ipp>
#endif
