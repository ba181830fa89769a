// Mesh: the bodies.
#pragma once

#include <netinet/in.h>   // IPPROTO_TCP
#include <netinet/tcp.h>  // TCP_USER_TIMEOUT
#include <poll.h>         // poll
#include <sys/socket.h>   // socketpair, send, recv
#include <unistd.h>       // close

#include <algorithm>  // find
#include <cerrno>     // EAGAIN
#include <cstring>    // memcpy
#include <memory>     // construct_at
#include <random>     // keys
#include <system_error>
#include <utility>  // exchange

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/detail/message_mismatch.hpp>  // unequal_buckets, unequal_lengths
#include <gx/core/error.hpp>                    // Error
#include <gx/coordination/mesh.hpp>             // Mesh
#include <gx/core/detail/sleep.hpp>             // Patience, sleep_until

namespace gx::coordination {

GX_DECL Mesh::Mesh(Placement placement, std::vector<Descriptor> sockets,
                   std::chrono::nanoseconds deadline, Session& session, NodeMemory* shared)
    : session_(session),
      shared_(shared),
      rank_(session.rank()),
      placement_(placement),
      deadline_(deadline),
      links_(sockets.size()) {
    GX_EXPECT(sockets.size() == static_cast<std::size_t>(placement.ranks()), "a socket a rank");
    for (std::size_t r = 0; r < sockets.size(); ++r) links_[r].socket = std::move(sockets[r]);
    try {
        engine_ = std::thread([this] { work(); });
    } catch (const std::system_error& e) {
        throw Error(std::string("a thread can't be made: ") + e.what());
    }
    session_.on_change([this] { hear(); });
}

GX_DECL Mesh::~Mesh() {
    if (session_.is_forked()) {  // without the engine, and whatever it was doing
        std::construct_at(&engine_);
        std::construct_at(&changed_);
        return;
    }
    session_.on_change({});
    {
        const std::lock_guard lock(mutex_);
        closing_ = true;
    }
    waker_.wake();
    engine_.join();
}

// ---- Connecting -------------------------------------------------------------------------

namespace detail::mesh {

/// What a rank sends first to one of a lower number.
struct Greeting {
    std::uint64_t key = 0;
    std::int64_t rank = -1;
};

inline constexpr std::size_t strangers_max = 64;

/// A connection whose greeting has not come whole.
struct Stranger {
    Descriptor socket{};
    Duration end{};  ///< of the patience with it
    Greeting greeting{};
    std::size_t read = 0;  ///< bytes of the greeting
};
/// Reads what has come, and whether more may come.
inline bool read_greeting(Stranger& s) {
    const auto bytes = std::as_writable_bytes(std::span(&s.greeting, 1));
    while (s.read < bytes.size()) {
        const auto rest = bytes.subspan(s.read);
        const auto n = ::recv(s.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
        if (n <= 0) return false;
        s.read += static_cast<std::size_t>(n);
    }
    return false;
}

/// Takes the connections of all ranks above `rank`. `key`: what they greet with.
inline void accept_others(Session& session, Listener& listener, std::uint64_t key,
                          std::vector<Descriptor>& sockets, Duration limit) {
    const auto missing = [&] {
        for (int r = session.rank() + 1; r < session.ranks(); ++r)
            if (!sockets[static_cast<std::size_t>(r)]) return r;
        return -1;
    };
    constexpr Duration pause = std::chrono::milliseconds(50);  // between looks at the cause
    gx::detail::Patience patience(limit);
    const std::string unreachable = "let the hosts of a run reach each other at all ports";
    std::string problem = unreachable;
    Duration accept_again{};
    std::vector<Stranger> strangers;
    const auto greeted = [&](Stranger& s) {
        if (read_greeting(s)) return steady_now() >= s.end;
        const Greeting& g = s.greeting;
        const bool is_whole = s.read == sizeof(Greeting);
        if (is_whole && g.key == key && g.rank > session.rank() && g.rank < session.ranks())
            sockets[static_cast<std::size_t>(g.rank)] = std::move(s.socket);
        return true;
    };
    while (missing() >= 0) {
        if (session.cause().stopped()) throw Error(session.sentence());
        if (patience.ended())
            throw Error("rank " + std::to_string(missing()) + " did not connect to rank " +
                        std::to_string(session.rank()) + " at " + listener.address() + ": " +
                        problem);
        std::vector<pollfd> polled;
        const bool accepts = steady_now() >= accept_again;
        if (accepts) polled.push_back({.fd = listener.get(), .events = POLLIN, .revents = 0});
        for (const Stranger& s : strangers)
            polled.push_back({.fd = s.socket.get(), .events = POLLIN, .revents = 0});
        const Duration look =
            std::min(steady_now() + pause, patience.next_look().time_since_epoch());
        (void)::poll(polled.data(), polled.size(), milliseconds_until(look));
        while (Descriptor socket = accepts ? listener.accept() : Descriptor()) {
            strangers.push_back({.socket = std::move(socket),
                                 .end = saturating_sum(steady_now(), std::chrono::seconds(5))});
            if (strangers.size() <= static_cast<std::size_t>(session.ranks()) + strangers_max)
                continue;
            std::erase_if(strangers, greeted);  // the oldest may be known by now
            if (strangers.size() > strangers_max) strangers.erase(strangers.begin());
        }
        const bool is_full = accepts && no_descriptor_is_left(errno);
        if (accepts) problem = unreachable;
        if (is_full) {
            problem = not_accepted(session.rank(), errno);
            accept_again = steady_now() + pause;
        }
        std::erase_if(strangers, greeted);
    }
}

/// A message may wait for a rank that is stopped, as long as the session says that it is there:
/// TCP_USER_TIMEOUT ends a connection whose peer takes no more, too.
inline void be_patient(int socket) {
    const int endless = 0;
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &endless, sizeof(endless));
}

/// A connection to rank `to`, unless the run stops meanwhile.
inline Descriptor connect_rank(Session& session, int to, const std::string& address,
                               Duration limit) {
    gx::detail::Patience patience(limit);
    for (;;) {
        const Duration look = std::chrono::milliseconds(500);  // at the cause
        const Duration end = steady_now() + std::min(look, limit);
        try {
            return connect_to(address, std::min(look, limit));
        } catch (const Error& e) {
            if (session.cause().stopped()) throw Error(session.sentence());
            if (steady_now() >= end && !patience.ended()) continue;
            throw Error("rank " + std::to_string(session.rank()) + " did not reach rank " +
                        std::to_string(to) + ": " + e.what() +
                        advice_on(e, "Let the hosts of a run reach each other at all ports"));
        }
    }
}

}  // namespace detail::mesh

GX_DECL std::vector<Descriptor> connect_all(Session& session, const std::string& host,
                                            Duration limit) {
    Listener listener("tcp:" + listening_host(host) + ":0");
    const std::string& bound = listener.address();
    const std::uint64_t key = std::random_device{}();
    // Each rank's address, and what is to be said there.
    const auto all = session.gather(
        "tcp:" + host + bound.substr(bound.rfind(':')) + " " + std::to_string(key), limit);
    std::vector<Descriptor> sockets(all.size());
    for (int r = 0; r < session.rank(); ++r) {
        const std::string& one = all[static_cast<std::size_t>(r)];
        const std::size_t space = one.find(' ');
        Descriptor& socket = sockets[static_cast<std::size_t>(r)];
        socket = detail::mesh::connect_rank(session, r, one.substr(0, space), limit);
        const detail::mesh::Greeting greeting{std::stoull(one.substr(space + 1)), session.rank()};
        if (::send(socket.get(), &greeting, sizeof(greeting), MSG_NOSIGNAL) == sizeof(greeting))
            continue;
        if (session.cause().stopped()) throw Error(session.sentence());
        throw Error("rank " + std::to_string(r) + " has closed its connection to rank " +
                    std::to_string(session.rank()));
    }
    detail::mesh::accept_others(session, listener, key, sockets, limit);
    for (const Descriptor& socket : sockets)
        if (socket) detail::mesh::be_patient(socket.get());
    return sockets;
}

// ---- Posting and waiting ----------------------------------------------------------------

GX_DECL Request Mesh::send(int to, int channel, std::span<const std::byte> message,
                           MessageBucket bucket) {
    GX_EXPECT(to >= 0 && to < placement_.ranks(), "a message to no rank of this world");
    const std::lock_guard lock(mutex_);
    const std::uint32_t id = take({.sending = true, .peer = to, .channel = channel});
    if (stop_.stopped()) return {id};
    if (to == rank_) {
        finish_message(link(to), {channel, bucket, {message.begin(), message.end()}});
        posted_[id].done = true;
        changed_.notify_all();
    } else {
        push(to, {.header = {channel, message.size(), bucket}, .payload = message, .request = id});
    }
    return {id};
}

GX_DECL Request Mesh::receive(int from, int channel, std::span<std::byte> message,
                              MessageBucket bucket) {
    GX_EXPECT(from >= 0 && from < placement_.ranks(), "a message from no rank of this world");
    const std::lock_guard lock(mutex_);
    const std::uint32_t id =
        take({.peer = from, .channel = channel, .bucket = bucket, .target = message});
    if (stop_.stopped()) return {id};
    Link& l = link(from);
    const auto early = std::find_if(l.early.begin(), l.early.end(),
                                    [&](const Early& e) { return e.channel == channel; });
    l.receiving.push_back(id);
    if (early == l.early.end()) return {id};
    Early arrived = std::move(*early);
    l.early.erase(early);
    finish_message(l, std::move(arrived));
    return {id};
}

GX_DECL Arrival Mesh::wait_any(std::span<const Request> requests) {
    GX_EXPECT(!requests.empty(), "wait_any needs at least one request");
    std::unique_lock lock(mutex_);
    gx::detail::Patience patience(deadline_);
    Arrival arrival;
    bool drained = false;
    std::optional<WaitsFor> waits;
    while (!resolved(requests, arrival, drained)) {
        if (!waits)
            waits.emplace(session_, requests, [&](Request r) { return posted_[r.id].peer; });
        constexpr auto timeout = std::cv_status::timeout;
        if (stop_.stopped()) {  // for the rest of what a lost rank had sent
            drained = changed_.wait_for(lock, std::chrono::seconds(1)) == timeout;
        } else if (blamed_) {  // the cause follows
            changed_.wait_for(lock, gx::detail::Patience::look_every);
        } else if (patience.ended()) {
            blame(requests[0], &*waits);
        } else {
            changed_.wait_until(lock, patience.next_look());
        }
    }
    posted_.erase(requests[arrival.index].id);
    return arrival;
}

GX_DECL std::uint32_t Mesh::take(Posted posted) {
    while (++last_request_ == 0 || posted_.contains(last_request_)) {
    }
    posted_.emplace(last_request_, posted);
    return last_request_;
}

// `drained`: whether nothing more is to be expected of a lost rank.
GX_DECL bool Mesh::resolved(std::span<const Request> requests, Arrival& arrival, bool drained) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
        const auto found = posted_.find(requests[i].id);
        GX_EXPECT(found != posted_.end(), "a request is waited for once");
        if (!found->second.done) continue;
        arrival = {i, {}};
        return true;
    }
    if (!stop_.stopped()) {
        blame_if_hopeless(requests);
        return false;
    }
    const Delivery::Outcome outcome = stop_.outcome();
    const bool threw = outcome == Delivery::Outcome::cancelled;
    const auto found = std::ranges::find_if(
        requests, [&](Request r) { return !threw && posted_[r.id].peer == stop_.rank; });
    const bool lost = found != requests.end();
    if (lost && stop_.reason == Reason::lost && !link(stop_.rank).ended && !drained) return false;
    const auto index = lost ? static_cast<std::size_t>(found - requests.begin()) : 0;
    const std::uint32_t id = requests[index].id;
    using Outcome = Delivery::Outcome;
    // A rank that it waits for through others is found by the deadline of this wait, too.
    const bool found_late = timed_out_ == id && outcome == Outcome::timed_out;
    arrival = {index, {lost || found_late ? outcome : Outcome::cancelled, stop_.rank}};
    withdraw(id);
    return true;
}

// Blames a rank if every request is for a message of a rank that has left.
GX_DECL void Mesh::blame_if_hopeless(std::span<const Request> requests) {
    for (const Request r : requests) {
        const Posted& p = posted_[r.id];
        const Link& l = link(p.peer);
        if (p.peer == rank_ || !l.left || !l.ended) return;
        if (p.sending && l.socket) return;  // its process still reads
    }
    blame(requests[0]);
}

GX_DECL void Mesh::blame(Request request, const WaitsFor* by) {
    if (std::exchange(blamed_, true)) return;
    timed_out_ = request.id;
    session_.blame(posted_[request.id].peer, by);
}

// The caller's memory may go away after this. Messages and receives of a channel meet in order, so
// that behind one that is missing none may meet another.
GX_DECL void Mesh::withdraw(std::uint32_t id) {
    const int channel = posted_[id].channel;
    Link& l = link(posted_[id].peer);
    if (const auto at = std::ranges::find(l.receiving, id); at != l.receiving.end())
        l.receiving.erase(
            std::remove_if(at, l.receiving.end(),
                           [&](std::uint32_t r) { return posted_[r].channel == channel; }),
            l.receiving.end());
    if (l.in.request == id) {  // the rest of a message that is half read goes elsewhere
        l.in.owned.assign(l.in.header.bytes, std::byte{});
        l.in.target = l.in.owned;
        l.in.request = 0;
        l.in.dropped = true;
    }
    for (auto it = l.out.begin(); it != l.out.end(); ++it) {
        if (it->request != id) continue;
        if (it->written == 0) {
            l.out.erase(
                std::remove_if(it, l.out.end(),
                               [&](const Outgoing& o) { return o.header.channel == channel; }),
                l.out.end());
        } else {
            it->owned.assign(it->payload.begin(), it->payload.end());
            it->payload = it->owned;
            it->request = 0;
        }
        return;
    }
}

// ---- Stopping and leaving ---------------------------------------------------------------

// On the session's monitor.
GX_DECL void Mesh::hear() {
    const std::lock_guard lock(mutex_);
    if (!stop_.stopped()) stop_ = session_.cause();
    for (int r = 0; r < placement_.ranks(); ++r) link(r).left = session_.left(r);
    changed_.notify_all();
}

GX_DECL void Mesh::leave() {
    std::unique_lock lock(mutex_);
    const auto written = [&] {
        return stop_.stopped() || std::all_of(links_.begin(), links_.end(), [](const Link& l) {
                   return l.out.empty() || !l.socket;
               });
    };
    gx::detail::Patience patience(deadline_);
    (void)gx::detail::sleep_until(changed_, lock, patience, written);
    for (const Link& l : links_)
        if (l.socket.is_open() && l.out.empty()) ::shutdown(l.socket.get(), SHUT_WR);
}

GX_DECL void Mesh::end_reading(int r) {
    link(r).ended = true;
    changed_.notify_all();
}

GX_DECL void Mesh::end_writing(int r) {
    link(r).socket.close();
    link(r).out.clear();
    changed_.notify_all();
}

// ---- Writing ----------------------------------------------------------------------------

GX_DECL void Mesh::push(int to, Outgoing out) {
    Link& l = link(to);
    if (!l.socket) return;
    l.out.push_back(std::move(out));
    if (l.out.size() != 1) return;
    if (write_some(to)) {
        if (!l.out.empty()) waker_.wake();
    } else if (l.ended) {  // the engine looks at it no more
        end_writing(to);
    }
}

// Writes what the socket takes now; false when its other end is gone, or the program has closed it.
GX_DECL bool Mesh::write_some(int to) {
    Link& l = link(to);
    if (!l.socket.is_open()) return false;
    while (!l.out.empty()) {
        Outgoing& o = l.out.front();
        const auto header = std::as_bytes(std::span(&o.header, 1));
        const auto rest = o.written < header.size() ? header.subspan(o.written)
                                                    : o.payload.subspan(o.written - header.size());
        if (!rest.empty()) {
            const auto n =
                ::send(l.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
            if (n < 0) return false;  // what it sent is still to be read: the engine sees its end
            o.written += static_cast<std::size_t>(n);
        }
        if (o.written < header.size() + o.payload.size()) continue;
        if (o.request != 0) posted_[o.request].done = true;
        l.out.pop_front();
        changed_.notify_all();
    }
    return true;
}

// ---- Reading ----------------------------------------------------------------------------

// Reads what is there, at most about 1 MiB; false at the end of the socket.
GX_DECL bool Mesh::read_some(int from) {
    Link& l = link(from);
    for (std::size_t total = 0; total < (std::size_t{1} << 20);) {
        Incoming& in = l.in;
        const auto header = std::as_writable_bytes(std::span(&in.header, 1));
        const auto rest = in.got < header.size() ? header.subspan(in.got)
                                                 : in.target.subspan(in.got - header.size());
        const auto n = ::recv(l.socket.get(), rest.data(), rest.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
        if (n <= 0) return false;
        total += static_cast<std::size_t>(n);
        in.got += static_cast<std::size_t>(n);
        if (in.got == header.size()) begin_payload(from);
        if (in.got >= header.size() && in.got == header.size() + in.header.bytes)
            finish_frame(from);
    }
    return true;
}

GX_DECL void Mesh::begin_payload(int from) {
    Link& l = link(from);
    Incoming& in = l.in;
    in.request = unmatched(l, static_cast<int>(in.header.channel));
    if (in.request != 0) {
        expect_meeting(posted_[in.request], in.header.bucket, in.header.bytes);
        in.target = posted_[in.request].target;
        return;
    }
    in.owned.resize(in.header.bytes);
    in.target = in.owned;
}

GX_DECL void Mesh::finish_frame(int from) {
    Link& l = link(from);
    Incoming in = std::exchange(l.in, Incoming{});
    if (in.request != 0) {
        posted_[in.request].done = true;
    } else if (!in.dropped) {
        finish_message(
            l, {static_cast<int>(in.header.channel), in.header.bucket, std::move(in.owned)});
    }
    changed_.notify_all();
}

GX_DECL void Mesh::finish_message(Link& l, Early message) {
    const std::uint32_t id = unmatched(l, message.channel);
    if (id == 0) {
        l.early.push_back(std::move(message));
        return;
    }
    Posted& p = posted_[id];
    const std::vector<std::byte>& bytes = message.bytes;
    expect_meeting(p, message.bucket, bytes.size());
    if (!bytes.empty()) std::memcpy(p.target.data(), bytes.data(), bytes.size());
    p.done = true;
}

GX_DECL void Mesh::expect_meeting(const Posted& receive, MessageBucket bucket,
                                  std::size_t bytes) const {
    const auto& [peer, channel] = std::pair(receive.peer, receive.channel);
    GX_EXPECT(meet(bucket, receive.bucket),
              gx::detail::unequal_buckets(peer, rank_, channel, bucket, receive.bucket));
    GX_EXPECT(
        bytes == receive.target.size(),
        gx::detail::unequal_lengths(peer, rank_, channel, bytes, receive.target.size(), bucket));
}

// The oldest receive that is posted for the channel, taken out; 0: none.
GX_DECL std::uint32_t Mesh::unmatched(Link& l, int channel) {
    const auto found = std::find_if(l.receiving.begin(), l.receiving.end(), [&](std::uint32_t id) {
        return posted_[id].channel == channel;
    });
    if (found == l.receiving.end()) return 0;
    const std::uint32_t id = *found;
    l.receiving.erase(found);
    return id;
}

// ---- The progress engine ----------------------------------------------------------------

GX_DECL void Mesh::work() {
    std::vector<pollfd> polled;
    std::vector<int> peers;
    std::unique_lock lock(mutex_);
    while (!closing_) {
        polled.assign(1, {.fd = waker_.get(), .events = POLLIN, .revents = 0});
        peers.assign(1, rank_);
        for (int r = 0; r < placement_.ranks(); ++r) {
            const Link& l = link(r);
            if (!l.socket || (l.ended && l.out.empty())) continue;
            const int events = (l.ended ? 0 : POLLIN) | (l.out.empty() ? 0 : POLLOUT);
            polled.push_back(
                {.fd = l.socket.get(), .events = static_cast<short>(events), .revents = 0});
            peers.push_back(r);
        }
        lock.unlock();
        const int ready = ::poll(polled.data(), polled.size(), waker_ ? 1000 : 10);
        lock.lock();
        if (polled[0].revents != 0 || ready == 0) waker_.drain();
        for (std::size_t i = 1; i < polled.size(); ++i) {
            const int r = peers[i];
            if (polled[i].revents != 0 && !link(r).socket.is_open()) {  // the program closed it
                end_reading(r);
                end_writing(r);
                continue;
            }
            const bool closed = (polled[i].revents & (POLLHUP | POLLERR)) != 0;
            if ((polled[i].revents & POLLOUT) != 0 && !write_some(r)) link(r).out.clear();
            if (((polled[i].revents & POLLIN) != 0 || closed) && !link(r).ended && !read_some(r))
                end_reading(r);
            if (closed && link(r).ended) end_writing(r);
        }
    }
}

}  // namespace gx::coordination
