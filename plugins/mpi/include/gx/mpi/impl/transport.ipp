// Messages over MPI: the bodies.
#pragma once

#include <algorithm>  // all_of, min
#include <array>      // handles
#include <ranges>     // transform
#include <utility>    // pair

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/detail/message_mismatch.hpp>  // unequal_buckets
#include <gx/core/error.hpp>                    // Error
#include <gx/mpi/backoff.hpp>                   // Backoff
#include <gx/mpi/transport.hpp>                 // the declarations

namespace gx::mpi {

namespace detail::transport {

/// What a message of `bytes` is posted as. MPI keeps what a request needs of a type that is freed.
class MessageType {
public:
    MessageType(std::size_t bytes, std::size_t piece_bytes) : count_(static_cast<int>(bytes)) {
        if (bytes <= piece_bytes) return;
        const std::size_t pieces = bytes / piece_bytes, rest = bytes % piece_bytes;
        MPI_Datatype piece = MPI_DATATYPE_NULL, all = MPI_DATATYPE_NULL;
        expect(MPI_Type_contiguous(static_cast<int>(piece_bytes), MPI_BYTE, &piece),
               "MPI_Type_contiguous");
        expect(MPI_Type_contiguous(static_cast<int>(pieces), piece, &all), "MPI_Type_contiguous");
        const std::array<int, 2> counts{1, static_cast<int>(rest)};
        const std::array<MPI_Aint, 2> offsets{0, static_cast<MPI_Aint>(pieces * piece_bytes)};
        const std::array<MPI_Datatype, 2> types{all, MPI_BYTE};
        expect(MPI_Type_create_struct(2, counts.data(), offsets.data(), types.data(), &type_),
               "MPI_Type_create_struct");
        expect(MPI_Type_commit(&type_), "MPI_Type_commit");
        (void)MPI_Type_free(&piece);
        (void)MPI_Type_free(&all);
        count_ = 1;
        made_ = true;
    }
    MessageType(const MessageType&) = delete;
    MessageType& operator=(const MessageType&) = delete;
    ~MessageType() {
        if (made_) (void)MPI_Type_free(&type_);
    }

    [[nodiscard]] int count() const { return count_; }
    [[nodiscard]] MPI_Datatype type() const { return type_; }

private:
    MPI_Datatype type_ = MPI_BYTE;
    int count_;
    bool made_ = false;
};

/// to[i] = E::encode(from[i] + to[i]), the sum in float.
template <Element E>
void add_elements(void* from, void* to, int* count, MPI_Datatype*) {
    const auto* const a = static_cast<const typename E::storage*>(from);
    auto* const b = static_cast<typename E::storage*>(to);
    for (int i = 0; i < *count; ++i) b[i] = E::encode(E::decode(a[i]) + E::decode(b[i]));
}

template <Element E>
MPI_Op sum_of() {
    static const MPI_Op sum = [] {
        MPI_Op op = MPI_OP_NULL;
        expect(MPI_Op_create(&add_elements<E>, 1, &op), "MPI_Op_create");
        return op;
    }();
    return sum;
}

/// Type and operation of MPI, and bytes, of an element.
struct Summed {
    MPI_Datatype type;
    MPI_Op sum;
    std::size_t bytes;
};
inline Summed summed(ElementType e) {
    if (e == ElementType::fp32) return {MPI_FLOAT, MPI_SUM, sizeof(float)};
    const MPI_Op sum = e == ElementType::fp16 ? sum_of<fp16>() : sum_of<bf16>();
    return {MPI_UINT16_T, sum, sizeof(std::uint16_t)};
}

inline int tag_max(MPI_Comm communicator) {
    int* value = nullptr;
    int found = 0;
    in_library([&] {
        expect(MPI_Comm_get_attr(communicator, MPI_TAG_UB, static_cast<void*>(&value), &found),
               "MPI_Comm_get_attr");
    });
    constexpr int least = 32767;  // that the standard lets MPI have
    return found != 0 ? *value : least;
}

/// How long a rank is waited for that has left, since its last messages may be on their way.
inline constexpr std::chrono::seconds patience_with_left_ranks{2};
/// How long after an error of MPI the session may take to name the rank that caused it.
inline constexpr std::chrono::seconds patience_with_cause{1};

}  // namespace detail::transport

GX_DECL Messages::Messages(std::span<const MPI_Comm> communicators, MPI_Comm collectives,
                           Placement placement, coordination::Session& session,
                           const Options& options, coordination::NodeMemory* shared)
    : communicators_(communicators.begin(), communicators.end()),
      collectives_(collectives),
      placement_(placement),
      session_(session),
      options_(options),
      shared_(shared),
      tag_max_(detail::transport::tag_max(communicators.front())),
      tags_(tag_max_),
      left_(std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(session.ranks()))) {}

GX_DECL void Messages::working_on(const Operation& operation) {
    session_.working_on(operation);
    const std::lock_guard lock(mutex_);
    operation_ = operation;
}

GX_DECL Operation Messages::operation() {
    const std::lock_guard lock(mutex_);
    return operation_;
}

// ---- Posting ------------------------------------------------------------------------------------

GX_DECL Request Messages::send(int to, int channel, std::span<const std::byte> message,
                               MessageBucket bucket) {
    GX_EXPECT(to >= 0 && to < ranks(), "a message to no rank of this world");
    return post({.peer = to, .channel = channel, .bytes = message.size(), .bucket = bucket},
                const_cast<std::byte*>(message.data()));
}

GX_DECL Request Messages::receive(int from, int channel, std::span<std::byte> message,
                                  MessageBucket bucket) {
    GX_EXPECT(from >= 0 && from < ranks(), "a message from no rank of this world");
    return post({.peer = from,
                 .channel = channel,
                 .receiving = true,
                 .bytes = message.size(),
                 .bucket = bucket},
                message.data());
}

GX_DECL Request Messages::post(const Posted& posted, void* message) {
    if (posted.channel < 0 || posted.channel > tag_max_)
        throw Error("channel " + std::to_string(posted.channel) + " is no tag of " +
                    library_name() + ", whose largest is " + std::to_string(tag_max_) +
                    ": a reducer uses channels from 0");
    std::uint32_t id = 0;
    {
        const std::lock_guard lock(mutex_);
        if (unused_.empty()) {
            id = static_cast<std::uint32_t>(posted_.size());
            posted_.emplace_back();
            unused_.reserve(posted_.size());
        } else {
            id = unused_.back();
            unused_.pop_back();
        }
        posted_[id] = posted;
    }
    if (stopped_) return {id};
    Posted& mine = at({id});
    int code = MPI_SUCCESS;
    in_library([&] {
        const detail::transport::MessageType type(mine.bytes, options_.piece_bytes);
        const bool tells = tells_buckets(mine.channel);
        const MPI_Comm communicator =
            tells ? communicators_[static_cast<std::size_t>(mine.channel)] : communicators_.back();
        if (mine.receiving)
            code = MPI_Irecv(message, type.count(), type.type(), mine.peer,
                             tells ? MPI_ANY_TAG : mine.channel, communicator, &mine.request);
        else
            code = MPI_Isend(message, type.count(), type.type(), mine.peer,
                             tells ? tags_.tag_of(mine.bucket) : mine.channel, communicator,
                             &mine.request);
    });
    expect_or_stop(code, mine.receiving ? "MPI_Irecv" : "MPI_Isend");
    if (code != MPI_SUCCESS) mine.request = MPI_REQUEST_NULL;
    return {id};
}

GX_DECL Messages::Posted& Messages::at(Request request) {
    const std::lock_guard lock(mutex_);
    return slot(request);
}

GX_DECL Messages::Posted& Messages::slot(Request request) {
    GX_EXPECT(request.id < posted_.size() && posted_[request.id].peer >= 0,
              "a request is waited for once");
    return posted_[request.id];
}

GX_DECL void Messages::release(Request request) {
    const std::lock_guard lock(mutex_);
    posted_[request.id] = {};
    unused_.push_back(request.id);
}

// ---- Waiting ------------------------------------------------------------------------------------

GX_DECL Arrival Messages::wait_any(std::span<const Request> requests) {
    GX_EXPECT(!requests.empty(), "wait_any needs at least one request");
    // Most messages are there soon: until then neither the clock nor who has left is looked at.
    for (int i = 0; i < options_.tests_at_once && !stopped_; ++i) {
        if (const auto done = test(requests)) {
            release(requests[*done]);
            return {*done, {}};
        }
    }
    Patience patience(options_.deadline);
    std::optional<Patience> hopeless;
    std::optional<coordination::WaitsFor> waits;
    const auto peer_of = [&](Request r) { return at(r).peer; };
    Backoff backoff(peers_of(placement_, rank(), requests | std::views::transform(peer_of)));
    for (;;) {
        if (stopped_) return stopped(requests, false);
        const Moment before = std::chrono::steady_clock::now();
        if (const auto done = test(requests)) {
            release(requests[*done]);
            return {*done, {}};
        }
        if (stopped_) continue;
        const Moment after = std::chrono::steady_clock::now();
        if (!only_needs_ranks_that_left(requests)) hopeless.reset();
        else if (!hopeless) hopeless.emplace(detail::transport::patience_with_left_ranks, after);
        if (patience.ended(after) || (hopeless && hopeless->ended(after))) {
            session_.blame(at(requests[0]).peer, waits ? &*waits : nullptr);
            (void)session_.await_cause();
            return stopped(requests, true);
        }
        if (!waits) waits.emplace(session_, requests, peer_of);
        backoff.pause(after - before);
    }
}

GX_DECL std::optional<std::size_t> Messages::test(std::span<const Request> requests) {
    std::array<MPI_Request, 64> handles{};
    for (std::size_t first = 0; first < requests.size(); first += handles.size()) {
        const auto some =
            requests.subspan(first, std::min(handles.size(), requests.size() - first));
        {
            const std::lock_guard lock(mutex_);
            for (std::size_t i = 0; i < some.size(); ++i) handles[i] = slot(some[i]).request;
        }
        int index = MPI_UNDEFINED, done = 0;
        MPI_Status status{};
        int code = MPI_SUCCESS;
        in_library([&] {
            code =
                MPI_Testany(static_cast<int>(some.size()), handles.data(), &index, &done, &status);
        });
        const bool found =
            index != MPI_UNDEFINED && index >= 0 && index < static_cast<int>(some.size());
        if (!found && code == MPI_SUCCESS) continue;
        Posted* const mine = found ? &at(some[static_cast<std::size_t>(index)]) : nullptr;
        if (mine != nullptr) mine->request = handles[static_cast<std::size_t>(index)];
        expect_tested(code, "MPI_Testany", mine, status);
        if (stopped_) return std::nullopt;
        if (done == 0 || mine == nullptr) continue;
        if (mine->receiving) {
            expect_same_bucket(*mine, status);
            expect_length(*mine, status);
        }
        return first + static_cast<std::size_t>(index);
    }
    return std::nullopt;
}

// An error may be the loss of a rank, of which the session knows more.
GX_DECL void Messages::expect_or_stop(int code, const char* call) {
    if (code == MPI_SUCCESS) return;
    Patience patience(detail::transport::patience_with_cause);
    for (Backoff backoff; !stopped_ && !patience.ended();) backoff.pause();
    if (!stopped_) expect(code, call);
}

GX_DECL void Messages::expect_tested(int code, const char* call, const Posted* posted,
                                     const MPI_Status& status) {
    if (code == MPI_SUCCESS) return;
    int kind = MPI_SUCCESS;
    (void)MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE && posted != nullptr && posted->receiving) {
        if (status.MPI_SOURCE == posted->peer) expect_same_bucket(*posted, status);
        refuse_length(*posted, "a longer one");
    }
    if (kind == MPI_ERR_TRUNCATE && std::string_view(call) == "MPI_Iallreduce")
        throw Error("rank " + std::to_string(rank()) + ", in " +
                    coordination::describe(operation()) +
                    ": MPI_Iallreduce met a bucket of another length. All ranks must reduce the "
                    "same buckets in one order; gx's own reducers, such as Ring, name both ranks");
    expect_or_stop(code, call);
}

GX_DECL void Messages::expect_same_bucket(const Posted& posted, const MPI_Status& status) {
    if (!tells_buckets(posted.channel)) return;
    if (const auto sent = tags_.other_than(posted.bucket, status.MPI_TAG))
        throw Error(
            gx::detail::unequal_buckets(posted.peer, rank(), posted.channel, *sent, posted.bucket));
}

GX_DECL void Messages::expect_length(const Posted& posted, const MPI_Status& status) {
    MPI_Count bytes = 0;
    in_library(
        [&] { expect(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x"); });
    if (bytes != static_cast<MPI_Count>(posted.bytes))
        refuse_length(posted, "one of " + std::to_string(bytes));
}

GX_DECL void Messages::refuse_length(const Posted& posted, const std::string& got) {
    throw Error("rank " + std::to_string(rank()) + ", in " + coordination::describe(operation()) +
                ", expected a message of " + std::to_string(posted.bytes) + " bytes from rank " +
                std::to_string(posted.peer) + " on channel " + std::to_string(posted.channel) +
                ", and got " + got +
                ": the two reduce different buckets or elements. Start one program, with the same "
                "options, on all ranks");
}

GX_DECL bool Messages::only_needs_ranks_that_left(std::span<const Request> requests) {
    return std::ranges::all_of(requests, [&](Request r) {
        const int peer = at(r).peer;
        return peer != rank() && left_[static_cast<std::size_t>(peer)];
    });
}

// ---- Stopping -----------------------------------------------------------------------------------

GX_DECL void Messages::hear() {
    for (int r = 0; r < ranks(); ++r) left_[static_cast<std::size_t>(r)] = session_.left(r);
    if (session_.cause().stopped()) stopped_ = true;
}

// `late`: this wait has met its deadline.
GX_DECL Arrival Messages::stopped(std::span<const Request> requests, bool late) {
    using Outcome = Delivery::Outcome;
    const coordination::Cause cause = session_.cause();
    const Outcome outcome = cause.outcome();
    const auto found =
        std::ranges::find_if(requests, [&](Request r) { return at(r).peer == cause.rank; });
    const bool its = found != requests.end();
    Posted& mine = at(its ? *found : requests[0]);
    if (mine.receiving && mine.request != MPI_REQUEST_NULL)
        in_library([&] { (void)MPI_Cancel(&mine.request); });
    mine.request = MPI_REQUEST_NULL;  // its slot is not used again: MPI may still write there
    return {its ? static_cast<std::size_t>(found - requests.begin()) : 0,
            {its || (late && outcome == Outcome::timed_out) ? outcome : Outcome::cancelled,
             cause.rank}};
}

GX_DECL void Messages::progress() {
    if (stopped_) return;
    int found = 0;
    in_library([&] {
        (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, communicators_.back(), &found,
                         MPI_STATUS_IGNORE);
    });
}

// ---- MPI's own all-reduce -----------------------------------------------------------------------

GX_DECL Delivery Messages::all_reduce(void* values, std::size_t count, ElementType element) {
    detail::transport::Summed summed{};
    in_library([&] { summed = detail::transport::summed(element); });
    const auto [type, sum, bytes] = summed;
    Patience patience(options_.deadline);
    const coordination::WaitsFor waits(session_, coordination::any_rank);
    for (std::size_t first = 0; first < count;) {
        const std::size_t some = std::min(count - first, options_.piece_bytes);
        MPI_Request request = MPI_REQUEST_NULL;
        for (Backoff backoff(placement_.machines > 1 ? Peers::other_hosts : Peers::this_host);;) {
            if (stopped_) {
                const coordination::Cause cause = session_.cause();
                return {cause.outcome(), cause.rank};
            }
            const Moment before = std::chrono::steady_clock::now();
            int done = 0, code = MPI_SUCCESS;
            in_library([&] {
                if (request == MPI_REQUEST_NULL)
                    code =
                        MPI_Iallreduce(MPI_IN_PLACE, static_cast<char*>(values) + first * bytes,
                                       static_cast<int>(some), type, sum, collectives_, &request);
                if (code == MPI_SUCCESS) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
            });
            expect_tested(code, "MPI_Iallreduce", nullptr, {});
            if (stopped_) continue;
            if (done != 0) break;
            const Moment after = std::chrono::steady_clock::now();
            if (patience.ended(after)) {  // MPI does not say which rank is late
                session_.blame(coordination::any_rank, &waits);
                const coordination::Cause cause = session_.await_cause();
                return {cause.outcome(), cause.rank};
            }
            backoff.pause(after - before);
        }
        first += some;
    }
    return {};
}

}  // namespace gx::mpi
