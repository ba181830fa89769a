// Kernels: how a group's parts reach their streams' heads, meet those of other ranks, and end.
#include <algorithm>  // all_of, find
#include <csignal>    // raise
#include <cstring>    // memcpy
#include <utility>    // move

#include "nccl_state.hpp"

namespace gx::nccl_testing {

namespace {

std::string described(const Part& p) { return std::to_string(p.count) + " x " + name_of(p.type); }
/// "ncclAllReduce of 4 x ncclFloat32 (ncclSum)".
std::string collective_text(const Part& p) {
    std::string text = name_of(p.kind) + " of " + described(p);
    if (p.kind == Part::Kind::all_reduce || p.kind == Part::Kind::reduce_scatter)
        text += " (" + name_of(p.op) + ")";
    if (p.kind == Part::Kind::broadcast) text += " from rank " + std::to_string(p.peer);
    return text;
}
/// Which of its group's collectives a part is, and of how many.
std::pair<int, int> place_in_group(const Half& half) {
    int place = 0, all = 0;
    for (std::size_t i = 0; i < half.kernel->parts.size(); ++i) {
        if (half.kernel->parts[i].is_message()) continue;
        place += i < half.part;
        ++all;
    }
    return {place, all};
}

}  // namespace

// ---- Launches --------------------------------------------------------------------------------

// User guide, "Mixing Multiple Streams within the same ncclGroupStart/End() group": the kernel
// waits for all streams, and all streams wait for it.
void Nccl::launch(ncclComm& comm, std::vector<Part> parts,
                  const std::vector<CUstream_st*>& streams) {
    const auto k = std::make_shared<Kernel>();
    k->comm = &comm;
    k->parts = std::move(parts);
    CUstream_st& s = *streams[0];
    k->captured = s.capture != nullptr;
    if (!k->captured) k->ticket = comm.issued++;
    k->name = name_of(k->parts[0].kind);
    if (k->parts.size() > 1)
        k->name = "group of " + std::to_string(k->parts.size()) + " from " + k->name;
    k->name += " by " + comm.name;
    expect_apart(*k);

    std::vector<Point> before;
    for (std::size_t i = 1; i < streams.size(); ++i) {
        if (k->captured || streams[i]->capture)
            r.stop("'" + k->name +
                   "' goes over several streams, of which one is captured: this double captures "
                   "one stream of a group.");
        before.push_back(Runtime::end_of(*streams[i]));
    }
    std::vector<Use> reads, all;
    for (const Part& p : k->parts) {
        if (const Use u = read_of(p, comm.ranks); u.bytes > 0) reads.push_back(u);
        if (const Use u = write_of(p, comm.ranks); u.bytes > 0) all.push_back(u);
    }
    all.insert(all.end(), reads.begin(), reads.end());
    r.push(s, {.name = k->name,
               .uses = std::move(reads),
               .run = [this, k] { arrive(k); },
               .ready = [this, k] { return may_arrive(*k); },
               .waits = std::move(before),
               .owner = &comm});
    r.push(s, {.name = k->name,
               .run = [this, k] { meet(*k); },
               .ready = [this, k] { return has_met(*k); },
               .awaited = [this, k] { return awaited_by(*k); },
               .owner = &comm});
    ++r.counts.kernels;
    r.push(s, {.name = k->name,
               .kind = Operation::Kind::kernel,
               .uses = std::move(all),
               .run = [this, k] { finish(*k); },
               .owner = &comm});
    if (k->captured) return;
    comm.ends[&s] = Runtime::end_of(s);
    for (std::size_t i = 1; i < streams.size(); ++i) {
        r.push(*streams[i], {.name = k->name, .waits = {Runtime::end_of(s)}});
        comm.ends[streams[i]] = Runtime::end_of(*streams[i]);
    }
}

/// Within a group everything progresses at once: what one part writes no other may use.
void Nccl::expect_apart(const Kernel& k) {
    const int ranks = k.comm->ranks, rank = k.comm->rank;
    const auto overlap = [](const Use& a, const Use& b) {
        return a.bytes > 0 && b.bytes > 0 && a.begin < b.begin + b.bytes &&
               b.begin < a.begin + a.bytes;
    };
    for (std::size_t i = 0; i < k.parts.size(); ++i) {
        const Use write = write_of(k.parts[i], ranks);
        for (std::size_t j = 0; j < k.parts.size(); ++j) {
            const Part& other = k.parts[j];
            const Use read = read_of(other, ranks), second = write_of(other, ranks);
            const bool reads = overlap(write, read), writes = i != j && overlap(write, second);
            if (i == j && reads) {  // in place, as the manual lays it
                const std::size_t own =
                    static_cast<std::size_t>(rank) *
                    (other.kind == Part::Kind::all_gather ? read.bytes : write.bytes);
                if (other.kind == Part::Kind::all_gather && read.begin == write.begin + own)
                    continue;
                if (other.kind == Part::Kind::reduce_scatter && write.begin == read.begin + own)
                    continue;
                if (other.kind != Part::Kind::all_gather &&
                    other.kind != Part::Kind::reduce_scatter && read.begin == write.begin)
                    continue;
                r.stop("'" + k.name + "': " + name_of(other.kind) +
                       " writes a part of what it reads. Use buffers that are apart, or in place "
                       "as the manual lays it.");
            }
            if (reads || writes)
                r.stop("'" + k.name + "': " + name_of(k.parts[i].kind) + " writes what " +
                       name_of(other.kind) + " of the same group " + (writes ? "writes" : "reads") +
                       ". A group's calls progress at once: use buffers that are apart.");
        }
    }
}

// ---- Arrivals --------------------------------------------------------------------------------

bool Nccl::may_arrive(const Kernel& k) {
    const ncclComm& c = *k.comm;
    if (is_over(c)) return true;
    if (k.runs || c.running || (!k.captured && k.ticket != c.arrived)) return false;
    return !options.one_kernel_at_a_time || !busy_.contains(c.device);
}

void Nccl::arrive(const std::shared_ptr<Kernel>& k) {
    ncclComm& c = *k->comm;
    if (c.aborted) return;
    if (!c.ended_by.empty())
        r.stop("'" + k->name + "' runs, but " + c.ended_by + " has ended " + c.name +
               ". Destroy graphs before the communicator.");
    k->runs = true;
    k->arrived = {r.running_on, r.running_on->done + 1};
    c.running = k;
    busy_[c.device] = &c;
    if (!k->captured) ++c.arrived;
    ++counts.kernels;
    if (killing_kernel.fires()) std::raise(SIGKILL);
    if (c.dies_in > 0 && --c.dies_in == 0) c.dead = true;
    for (Part& p : k->parts) {
        p.met = false;
        p.behind.clear();
        p.bytes.clear();
        if (const Use u = read_of(p, c.ranks); u.bytes > 0)
            p.bytes.assign(u.begin, u.begin + u.bytes);
    }
    if (c.dead || c.error != ncclSuccess) return;
    tell_kernel(*k);
    for (std::size_t i = 0; i < k->parts.size(); ++i)
        k->parts[i].is_message() ? post_message({k, i}) : post_collective({k, i});
}

// "Point To Point Communication Functions": the k-th send to a peer meets its k-th receive.
void Nccl::post_message(const Half& half) {
    const bool sends = half->kind == Part::Kind::send;
    const int mine = half.kernel->comm->rank;
    const bool counted = sends && !half.kernel->comm->is_remote;
    counts.sends += counted;
    if (counted) counts.sent_bytes += static_cast<std::int64_t>(half->bytes.size());
    Clique::Pair& pair =
        half.kernel->comm->clique
            ->pairs[sends ? std::pair(mine, half->peer) : std::pair(half->peer, mine)];
    auto& others = sends ? pair.receives : pair.sends;
    if (others.empty()) {
        (sends ? pair.sends : pair.receives).push_back(half);
        return;
    }
    const Half other = others.front();
    others.pop_front();
    sends ? match(half, other) : match(other, half);
}

void Nccl::match(const Half& send, const Half& receive) {
    if (send->count != receive->count || send->type != receive->type)
        r.stop(send.kernel->comm->name + " sends " + described(*send) + " to rank " +
               std::to_string(receive.kernel->comm->rank) + " ('" + send.kernel->name +
               "'), which receives " + described(*receive) + " ('" + receive.kernel->name +
               "'). Send and receive the same count and type, in the same order.");
    receive->bytes = std::move(send->bytes);
    receive->behind = {send.kernel->arrived};
    send->met = receive->met = true;
}

// "Collective Communication Functions": by all ranks, in the same order, with the same arguments.
void Nccl::post_collective(const Half& half) {
    ncclComm& c = *half.kernel->comm;
    const std::uint64_t number = c.collectives++;
    auto& parts = c.clique->collectives[number];
    parts.resize(static_cast<std::size_t>(c.ranks));
    counts.collectives += !c.is_remote;
    for (const Half& other : parts) {
        if (!other.kernel) continue;
        const bool same = other->kind == half->kind && other->count == half->count &&
                          other->type == half->type && other->op == half->op &&
                          (other->kind != Part::Kind::broadcast || other->peer == half->peer);
        if (!same)
            r.stop("collective " + std::to_string(number + 1) + " of communicator " +
                   std::to_string(c.clique->number) + " is " + collective_text(*half) +
                   " on rank " + std::to_string(c.rank) + " and " + collective_text(*other) +
                   " on rank " + std::to_string(other.kernel->comm->rank) +
                   ". Call the same collectives in the same order on all ranks.");
        const auto here = place_in_group(half), there = place_in_group(other);
        if (here != there)
            r.stop("collective " + std::to_string(number + 1) + " of communicator " +
                   std::to_string(c.clique->number) + " (" + collective_text(*half) +
                   ") is in a group of " + std::to_string(here.second) + " on rank " +
                   std::to_string(c.rank) + " and in a group of " + std::to_string(there.second) +
                   " on rank " + std::to_string(other.kernel->comm->rank) +
                   ". Group alike on all ranks.");
    }
    parts[static_cast<std::size_t>(c.rank)] = half;
    if (!std::ranges::all_of(parts, [](const Half& h) { return h.kernel != nullptr; })) return;
    std::vector<Half> all = std::move(parts);
    c.clique->collectives.erase(number);
    combine(all, number);
}

void Nccl::combine(std::vector<Half>& parts, std::uint64_t number) {
    const Part first = *parts[0];
    const Clique& clique = *parts[0].kernel->comm->clique;
    const Rng shared(1, clique.key);  // each process sums for itself, with a seed of its own
    std::uint64_t shared_draws = number << 32;
    const auto draws = [&](std::uint64_t n) {
        return clique.wire ? shared.below(shared_draws++, n) : draw(n);
    };
    std::vector<const std::vector<std::byte>*> rows;
    for (const Half& h : parts) rows.push_back(&h->bytes);
    std::vector<std::byte> all;
    switch (first.kind) {
        case Part::Kind::broadcast: all = *rows[static_cast<std::size_t>(first.peer)]; break;
        case Part::Kind::all_gather:
            for (const auto* row : rows) all.insert(all.end(), row->begin(), row->end());
            break;
        default: all = reduce(rows, first.type, first.op, draws);
    }
    for (const Half& h : parts) {
        const int rank = h.kernel->comm->rank;
        const bool scatters = first.kind == Part::Kind::reduce_scatter;
        const std::size_t slice = scatters ? first.count * bytes_of(first.type) : all.size();
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(
                                             scatters ? static_cast<std::size_t>(rank) * slice : 0);
        h->bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(slice));
        for (const Half& other : parts)
            if (other.kernel != h.kernel &&
                (first.kind != Part::Kind::broadcast || other.kernel->comm->rank == first.peer))
                h->behind.push_back(other.kernel->arrived);
        h->met = true;
    }
}

// ---- Ends ------------------------------------------------------------------------------------

bool Nccl::has_met(const Kernel& k) {
    const ncclComm& c = *k.comm;
    return is_over(c) || (!c.dead && c.error == ncclSuccess && (!c.wire || c.wire->flush()) &&
                          std::ranges::all_of(k.parts, [](const Part& p) { return p.met; }));
}

void Nccl::meet(Kernel& k) {
    for (const Part& p : k.parts)
        for (const Point& before : p.behind) {
            if (before.stream == nullptr) continue;  // of another process
            r.races.waited(before.stream->actor, before.sequence, r.running_on->actor);
        }
    if (k.comm->running.get() != &k) return;
    k.comm->running.reset();
    busy_.erase(k.comm->device);
}

void Nccl::finish(Kernel& k) {
    for (Part& p : k.parts) {
        const Use u = write_of(p, k.comm->ranks);
        if (u.bytes == 0) continue;
        if (p.met) std::memcpy(p.out, p.bytes.data(), u.bytes);
        else std::memset(p.out, 0xff, u.bytes);  // an abort leaves anything
    }
    k.runs = false;
}

/// Nothing of the communicator's rank waits for others any more, nor they for it.
void Nccl::withdraw(ncclComm& c) {
    const auto is_mine = [&](const Half& h) { return h.kernel && h.kernel->comm == &c; };
    if (c.clique) {
        for (auto& [key, pair] : c.clique->pairs) {
            std::erase_if(pair.sends, is_mine);
            std::erase_if(pair.receives, is_mine);
        }
        for (auto& [number, parts] : c.clique->collectives)
            for (Half& h : parts)
                if (is_mine(h)) h = {};
    }
    if (c.running) {
        c.running->runs = false;
        busy_.erase(c.device);
    }
    c.running.reset();
}

void Nccl::work_dropped(int device) {
    for (ncclComm& c : comms) {
        if (c.is_remote || c.device != device) continue;
        withdraw(c);
        c.arrived = c.issued;
        c.later = nullptr;
    }
}

std::string Nccl::awaited_by(const Kernel& k) {
    if (!k.runs) return "";
    std::set<std::string> missing;
    for (std::size_t i = 0; i < k.parts.size(); ++i) {
        const Part& p = k.parts[i];
        if (p.met) continue;
        if (p.is_message()) {
            missing.insert(std::string(p.kind == Part::Kind::send ? "a receive" : "a send") +
                           " by rank " + std::to_string(p.peer));
            continue;
        }
        for (const auto& [number, parts] : k.comm->clique->collectives)
            for (const Half& h : parts)
                if (h.kernel.get() == &k && h.part == i)
                    for (std::size_t rank = 0; rank < parts.size(); ++rank)
                        if (!parts[rank].kernel)
                            missing.insert(name_of(p.kind) + " by rank " + std::to_string(rank));
    }
    std::string text;
    for (const std::string& one : missing)
        text += (text.empty() ? ", which waits for " : ", ") + one;
    return text;
}

}  // namespace gx::nccl_testing
