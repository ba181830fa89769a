// Ranks in other processes: each process has a communicator for every rank, and is told what those
// of the others do: that they join, what their kernels bring as they arrive, and that they end.
#include <fcntl.h>        // O_CLOEXEC
#include <poll.h>         // poll
#include <sys/socket.h>   // socket
#include <sys/syscall.h>  // pidfd_open
#include <sys/un.h>       // sockaddr_un
#include <unistd.h>       // close, getpid

#include <algorithm>  // min
#include <cerrno>     // errno
#include <cstddef>    // offsetof
#include <cstring>    // memcpy

#include "nccl_state.hpp"

namespace gx::nccl_testing {

namespace {

constexpr std::size_t datagram_bytes = 60'000;

/// An abstract address: a name behind a zero, in no file system.
std::pair<sockaddr_un, socklen_t> address_of(const std::string& id, int rank) {
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    const std::string name = id.substr(0, 90) + " " + std::to_string(rank);
    std::memcpy(a.sun_path + 1, name.data(), name.size());
    return {a, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

/// What begins each datagram.
struct Head {
    int from = 0;
    int ends = 0;  ///< whether the frame does
};

class Writer {
public:
    explicit Writer(char kind) : bytes_(1, kind) {}
    template <class T>
    Writer& operator<<(const T& value) {
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
        return *this;
    }
    Writer& text(const void* begin, std::size_t size) {
        *this << size;
        if (size > 0) bytes_.append(static_cast<const char*>(begin), size);
        return *this;
    }
    Writer& text(const std::string& s) { return text(s.data(), s.size()); }
    [[nodiscard]] const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

class Reader {
public:
    explicit Reader(const std::string& frame) : rest_(frame) { rest_.remove_prefix(1); }
    template <class T>
    T next() {
        T value{};
        std::memcpy(&value, rest_.data(), sizeof(T));
        rest_.remove_prefix(sizeof(T));
        return value;
    }
    std::string_view text() {
        const auto size = next<std::size_t>();
        const std::string_view s = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return s;
    }

private:
    std::string_view rest_;
};

}  // namespace

// ---- Datagrams -------------------------------------------------------------------------------

Wire::Wire(std::string id, int rank, int ranks)
    : id_(std::move(id)),
      rank_(rank),
      socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      peers_(static_cast<std::size_t>(ranks)) {
    const auto [address, size] = address_of(id_, rank_);
    bound_ = ::bind(socket_, reinterpret_cast<const sockaddr*>(&address), size) == 0;
}

Wire::~Wire() {
    ::close(socket_);
    for (const Peer& p : peers_)
        if (p.process >= 0) ::close(p.process);
}

void Wire::send(int to, const std::string& frame) {
    auto& out = peers_[static_cast<std::size_t>(to)].out;
    for (std::size_t at = 0; at < frame.size(); at += datagram_bytes) {
        const Head head{.from = rank_, .ends = at + datagram_bytes >= frame.size()};
        std::string datagram(reinterpret_cast<const char*>(&head), sizeof head);
        out.push_back(datagram + frame.substr(at, datagram_bytes));
    }
    (void)flush();
}

bool Wire::flush() {
    bool all = true;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
        auto& out = peers_[r].out;
        const auto [address, size] = address_of(id_, static_cast<int>(r));
        while (!out.empty()) {
            const auto n = ::sendto(socket_, out.front().data(), out.front().size(), MSG_NOSIGNAL,
                                    reinterpret_cast<const sockaddr*>(&address), size);
            if (n < 0 && errno == EINTR) continue;
            const bool is_gone = n < 0 && errno == ECONNREFUSED && peers_[r].process >= 0;
            if (n < 0 && !is_gone) break;  // its queue is full, or it has not come
            out.pop_front();
        }
        all = all && out.empty();
    }
    return all;
}

std::string Wire::receive() {
    std::vector<char> bytes(sizeof(Head) + datagram_bytes);
    for (;;) {
        const auto n = ::recv(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < static_cast<ssize_t>(sizeof(Head))) return "";
        Head head;
        std::memcpy(&head, bytes.data(), sizeof head);
        std::string& part = peers_[static_cast<std::size_t>(head.from)].part;
        part.append(bytes.data() + sizeof head, static_cast<std::size_t>(n) - sizeof head);
        if (head.ends) return std::exchange(part, {});
    }
}

void Wire::met(int rank, int process) {
    Peer& p = peers_[static_cast<std::size_t>(rank)];
    if (p.process < 0) p.process = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
}

bool Wire::has_ended(int rank) const {
    pollfd p{.fd = peers_[static_cast<std::size_t>(rank)].process, .events = POLLIN, .revents = 0};
    return p.fd >= 0 && ::poll(&p, 1, 0) > 0;
}

// ---- What is told ----------------------------------------------------------------------------

void Nccl::open_wire(const std::shared_ptr<Join>& j, const std::string& id, int rank,
                     const std::string& call) {
    if (j->wire)
        r.stop(call + ": two ranks of one process. Leave out NcclOptions::processes for those.");
    j->key = id;
    j->wire = std::make_shared<Wire>(id, rank, j->expected);
    if (!j->wire->is_bound())
        r.stop(call + ": two ranks " + std::to_string(rank) + " join " + j->name +
               ". Give each rank its own number.");
    wires_.push_back(j->wire);
    joins_of_processes[j->key] = j;
    if (!progress_.joinable())
        progress_ = std::jthread([this](const std::stop_token& over) { run_without_host(over); });
}

void Nccl::tell_join(const Join& j, const Join::Rank& rank) {
    if (!j.wire) return;
    Writer w('J');
    w.text(j.key) << j.wire->rank() << static_cast<int>(::getpid()) << j.expected << rank.rank
                  << rank.color << rank.key << (rank.comm == nullptr ? -1 : bus_of(*rank.comm));
    for (int to = 0; to < j.wire->ranks(); ++to)
        if (to != j.wire->rank()) j.wire->send(to, w.bytes());
}

/// To each rank its messages, and all collectives.
void Nccl::tell_kernel(const Kernel& k) {
    const Clique& clique = *k.comm->clique;
    if (!clique.wire) return;
    for (const ncclComm* const to : clique.members) {
        if (!to->is_remote) continue;
        Writer w('K');
        std::vector<const Part*> parts;
        for (const Part& p : k.parts)
            if (!p.is_message() || p.peer == to->rank) parts.push_back(&p);
        w.text(clique.key).text(k.name) << k.comm->rank << parts.size();
        for (const Part* const p : parts) {
            w << p->kind << p->count << p->type << p->op << p->peer;
            w.text(p->bytes.data(), p->bytes.size());
        }
        if (!parts.empty()) clique.wire->send(to->on_wire, w.bytes());
    }
}

void Nccl::tell_end(const ncclComm& c) {
    if (!c.wire || !c.clique || c.is_remote) return;
    Writer w('E');
    w.text(c.clique->key) << c.rank;
    for (const ncclComm* const to : c.clique->members)
        if (to->is_remote) c.wire->send(to->on_wire, w.bytes());
}

// ---- What is heard ---------------------------------------------------------------------------

/// What other processes wait for goes on where the host of this one is elsewhere, as on a GPU.
void Nccl::run_without_host(const std::stop_token& over) {
    constexpr auto pause = std::chrono::milliseconds(1);
    for (std::uint64_t before = 0; !over.stop_requested(); std::this_thread::sleep_for(pause)) {
        const std::unique_lock lock(r.mutex, std::try_to_lock);
        if (!lock.owns_lock() || r.stopped) continue;
        const bool is_idle = std::exchange(before, calls_ + 1) == calls_;
        try {
            (void)take_messages();
            while (is_idle && r.advance({})) {
            }
            r.close_memory();
        } catch (const cuda_testing::Misuse&) {  // the host's next call says so
        }
    }
}

bool Nccl::take_messages() {
    ++calls_;
    for (const auto& wire : wires_) {
        (void)wire->flush();
        for (std::string frame; !(frame = wire->receive()).empty();)
            frames_.emplace_back(std::move(frame), wire);
    }
    for (bool moved = true; moved && !r.stopped;) {  // one may make what others are for
        moved = false;
        for (auto f = frames_.begin(); f != frames_.end();) {
            const auto [frame, wire] = *f;
            if (!handle(frame, wire)) {
                ++f;
                continue;
            }
            f = frames_.erase(f);
            moved = true;
            r.wake();
        }
    }
    return !wires_.empty();
}

bool Nccl::has_died(const ncclComm& c) {
    if (!c.is_remote) return c.dead && c.peers_see == PeersSee::remote_error;
    if (c.state == State::ended || !c.wire->has_ended(c.on_wire)) return false;
    (void)take_messages();  // its process may have said that it ends since they were taken
    return c.state != State::ended;
}

/// False: it is of what is not there yet.
bool Nccl::handle(const std::string& frame, const std::shared_ptr<Wire>& wire) {
    Reader in(frame);
    const std::string key(in.text());
    if (frame[0] == 'J') {
        const auto found = joins_of_processes.find(key);
        if (found == joins_of_processes.end()) return false;
        const auto j = found->second;
        const int on_wire = in.next<int>(), process = in.next<int>(), expected = in.next<int>();
        Join::Rank rank{.comm = nullptr,
                        .rank = in.next<int>(),
                        .color = in.next<int>(),
                        .key = in.next<int>()};
        const int bus = in.next<int>();
        wire->met(on_wire, process);
        if (expected != j->expected)
            r.stop("rank " + std::to_string(rank.rank) + " joins " + j->name + " with " +
                   std::to_string(expected) + " ranks, and rank " + std::to_string(wire->rank()) +
                   " with " + std::to_string(j->expected) + ". Give all the same count.");
        if (bus >= 0) {
            ncclComm& c = comms.emplace_back();
            c.name = "rank " + std::to_string(rank.rank) + " of " + j->name;
            c.is_remote = true;
            c.device = bus;
            c.wire = wire;
            c.on_wire = on_wire;
            rank.comm = &c;
        }
        take_part(*j, rank);
        return true;
    }
    const auto found = cliques_of_processes.find(key);
    if (found == cliques_of_processes.end()) return false;
    const auto member = [&](int rank) { return found->second->members[std::size_t(rank)]; };
    if (frame[0] == 'E') {
        member(in.next<int>())->state = State::ended;
        return true;
    }
    const auto k = std::make_shared<Kernel>();
    k->name = in.text();
    k->comm = member(in.next<int>());
    k->parts.resize(in.next<std::size_t>());
    for (Part& p : k->parts) {
        p.kind = in.next<Part::Kind>();
        p.count = in.next<std::size_t>();
        p.type = in.next<ncclDataType_t>();
        p.op = in.next<ncclRedOp_t>();
        p.peer = in.next<int>();
        const std::string_view bytes = in.text();
        const auto* const begin = reinterpret_cast<const std::byte*>(bytes.data());
        p.bytes.assign(begin, begin + bytes.size());
    }
    for (std::size_t i = 0; i < k->parts.size(); ++i)
        k->parts[i].is_message() ? post_message({k, i}) : post_collective({k, i});
    return true;
}

}  // namespace gx::nccl_testing
