//! The bucket in S3's protocol, over the `s3s` library, which parses requests, checks signatures
//! and writes XML. This file decides which bytes are sent; the body itself does not pass through
//! the library.

use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, Method};
use http_body_util::BodyExt;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::{S3Auth, SecretKey};
use s3s::dto::{
    Bucket, BucketLocationConstraint, CommonPrefix, DeleteObjectInput, DeleteObjectOutput, ETag, EncodingType,
    GetBucketLocationInput, GetBucketLocationOutput, GetObjectInput, GetObjectOutput, HeadBucketInput,
    HeadBucketOutput, HeadObjectInput, HeadObjectOutput, ListBucketsInput, ListBucketsOutput, ListObjectsInput,
    ListObjectsOutput, ListObjectsV2Input, ListObjectsV2Output, PutObjectInput, PutObjectOutput,
};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};

use crate::answer::conditions::Selection;
use crate::answer::listing::{Page, Query, Start};
use crate::answer::{self, Chosen};
use crate::objects::{Object, Objects};
use crate::{Config, Effect};

/// The effect of a fault on an answer. Travels with a request through the library.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted(pub(crate) Option<Effect>);

/// The service; a request's extensions may hold [`Wanted`], a response's hold [`Chosen`] if it has
/// bytes of an object.
pub(crate) fn service(config: &Config, objects: Arc<Objects>) -> S3Service {
    let bucket = TestBucket { name: config.bucket.clone(), region: config.region.clone(), objects };
    let mut builder = S3ServiceBuilder::new(bucket);
    builder.set_auth(Keys { access_key: config.access_key.clone(), secret_key: config.secret_key.clone().into() });
    builder.set_access(Access { anonymous: config.anonymous });
    builder.build()
}

/// The only pair of keys.
struct Keys {
    access_key: String,
    secret_key: SecretKey,
}

#[async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        if access_key == self.access_key {
            Ok(self.secret_key.clone())
        } else {
            let message = "The AWS Access Key Id you provided does not exist in our records.";
            Err(S3Error::with_message(S3ErrorCode::InvalidAccessKeyId, message))
        }
    }
}

struct Access {
    anonymous: bool,
}

#[async_trait]
impl S3Access for Access {
    async fn check(&self, cx: &mut S3AccessContext<'_>) -> S3Result<()> {
        let reads = matches!(*cx.method(), Method::GET | Method::HEAD);
        if cx.credentials().is_some() || (self.anonymous && reads) {
            Ok(())
        } else {
            Err(s3_error!(AccessDenied, "Access Denied"))
        }
    }
}

struct TestBucket {
    name: String,
    region: String,
    objects: Arc<Objects>,
}

impl TestBucket {
    fn check(&self, bucket: &str) -> S3Result<()> {
        if bucket == self.name { Ok(()) } else { Err(s3_error!(NoSuchBucket, "The specified bucket does not exist")) }
    }

    fn object(&self, bucket: &str, key: &str) -> S3Result<Arc<Object>> {
        self.check(bucket)?;
        self.objects.get(key).ok_or_else(|| s3_error!(NoSuchKey, "The specified key does not exist."))
    }
}

/// Headers and bytes of an answer about an object, or the error that S3 gives instead.
fn choose(headers: &HeaderMap, object: Arc<Object>, wanted: Option<Wanted>) -> S3Result<(HeaderMap, Chosen)> {
    let effect = wanted.and_then(|wanted| wanted.0);
    let gzip = effect == Some(Effect::Gzip);
    let part = match answer::select(headers, &object, effect) {
        Selection::Whole => None,
        Selection::Part(part) => Some(part),
        Selection::NotModified => {
            let mut error = S3Error::new(S3ErrorCode::NotModified);
            error.set_headers(answer::version_headers(&object));
            return Err(error);
        }
        Selection::PreconditionFailed => {
            let message = "At least one of the pre-conditions you specified did not hold";
            return Err(S3Error::with_message(S3ErrorCode::PreconditionFailed, message));
        }
        Selection::NotSatisfiable => {
            let mut error = s3_error!(InvalidRange, "The requested range is not satisfiable");
            error.set_headers(HeaderMap::from_iter([(
                http::header::CONTENT_RANGE,
                answer::unsatisfied_range(object.size),
            )]));
            return Err(error);
        }
    };
    let (status, head) = answer::object_head(&object, part.as_ref(), gzip);
    let range = part.unwrap_or(0..object.size);
    Ok((head, Chosen { status, object, range, gzip }))
}

#[async_trait]
impl S3 for TestBucket {
    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let object = self.object(&request.input.bucket, &request.input.key)?;
        let wanted = request.extensions.get::<Wanted>().copied();
        let (head, chosen) = choose(&request.headers, object, wanted)?;
        let mut response = S3Response::with_headers(GetObjectOutput::default(), head);
        response.extensions.insert(chosen);
        Ok(response)
    }

    async fn head_object(&self, request: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let object = self.object(&request.input.bucket, &request.input.key)?;
        let (head, chosen) = choose(&request.headers, object, None)?;
        let mut response = S3Response::with_headers(HeadObjectOutput::default(), head);
        response.status = Some(chosen.status);
        Ok(response)
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let effect = request.extensions.get::<Wanted>().and_then(|wanted| wanted.0);
        let input = request.input;
        self.check(&input.bucket)?;
        let start = match (&input.continuation_token, &input.start_after) {
            (Some(token), _) => Start::from_token(token)
                .ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))?,
            (None, Some(key)) => Start::AfterKey(key.clone()),
            (None, None) => Start::First,
        };
        let (max_keys, entries_max) = page_size(input.max_keys)?;
        let query = Query {
            prefix: input.prefix.as_deref().unwrap_or_default(),
            delimiter: input.delimiter.as_deref().unwrap_or_default(),
            start,
            entries_max,
        };
        let page = match (effect, effect.and_then(|effect| query.start.misled(effect))) {
            (Some(Effect::Endless), next) => Page { next, ..Page::default() },
            (_, Some(next)) => Page { next: Some(next), ..Page::read(&self.objects, &query) },
            (_, None) => Page::read(&self.objects, &query),
        };
        let encode = encoder(input.encoding_type.as_ref())?;
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            key_count: Some((page.objects.len() + page.prefixes.len()) as i32),
            max_keys: Some(max_keys),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page.next.as_ref().map(Start::to_token),
            contents: Some(contents(&page, encode)),
            common_prefixes: Some(common_prefixes(&page, encode)),
            prefix: Some(input.prefix.as_deref().map(encode).unwrap_or_default()),
            delimiter: input.delimiter.as_deref().map(encode),
            start_after: input.start_after.as_deref().map(encode),
            continuation_token: input.continuation_token,
            encoding_type: input.encoding_type,
            ..ListObjectsV2Output::default()
        }))
    }

    async fn list_objects(&self, request: S3Request<ListObjectsInput>) -> S3Result<S3Response<ListObjectsOutput>> {
        let input = request.input;
        self.check(&input.bucket)?;
        let delimiter = input.delimiter.as_deref().unwrap_or_default();
        // Version 1 has one marker for both; one that ends in the delimiter came from a common
        // prefix.
        let start = match &input.marker {
            Some(marker) if !delimiter.is_empty() && marker.ends_with(delimiter) => Start::AfterPrefix(marker.clone()),
            Some(marker) => Start::AfterKey(marker.clone()),
            None => Start::First,
        };
        let (max_keys, entries_max) = page_size(input.max_keys)?;
        let query = Query { prefix: input.prefix.as_deref().unwrap_or_default(), delimiter, start, entries_max };
        let page = Page::read(&self.objects, &query);
        let encode = encoder(input.encoding_type.as_ref())?;
        Ok(S3Response::new(ListObjectsOutput {
            name: Some(input.bucket),
            max_keys: Some(max_keys),
            is_truncated: Some(page.next.is_some()),
            next_marker: page.next.as_ref().map(|next| match next {
                Start::AfterKey(marker) | Start::AfterPrefix(marker) => encode(marker),
                Start::First | Start::Nowhere(_) => String::new(),
            }),
            contents: Some(contents(&page, encode)),
            common_prefixes: Some(common_prefixes(&page, encode)),
            prefix: Some(input.prefix.as_deref().map(encode).unwrap_or_default()),
            delimiter: input.delimiter.as_deref().map(encode),
            marker: Some(input.marker.as_deref().map(encode).unwrap_or_default()),
            encoding_type: input.encoding_type,
            ..ListObjectsOutput::default()
        }))
    }

    async fn list_buckets(&self, _: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
        let bucket = Bucket { name: Some(self.name.clone()), ..Bucket::default() };
        Ok(S3Response::new(ListBucketsOutput { buckets: Some(vec![bucket]), ..ListBucketsOutput::default() }))
    }

    async fn head_bucket(&self, request: S3Request<HeadBucketInput>) -> S3Result<S3Response<HeadBucketOutput>> {
        self.check(&request.input.bucket)?;
        Ok(S3Response::new(HeadBucketOutput {
            bucket_region: Some(self.region.clone()),
            ..HeadBucketOutput::default()
        }))
    }

    async fn get_bucket_location(
        &self,
        request: S3Request<GetBucketLocationInput>,
    ) -> S3Result<S3Response<GetBucketLocationOutput>> {
        self.check(&request.input.bucket)?;
        // The first region is older than the answer, which is empty for it.
        let location = (self.region != "us-east-1").then(|| BucketLocationConstraint::from(self.region.clone()));
        Ok(S3Response::new(GetBucketLocationOutput { location_constraint: location }))
    }

    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        self.check(&input.bucket)?;
        if input.content_length.is_some_and(|bytes| bytes > PUT_BYTES_MAX) {
            return Err(s3_error!(EntityTooLarge, "The testbed keeps what is put in memory, and takes 64 MiB at most"));
        }
        let bytes = match input.body {
            Some(body) => {
                let limited = http_body_util::Limited::new(s3s::Body::from(body), PUT_BYTES_MAX as usize);
                limited
                    .collect()
                    .await
                    .map_err(|source| S3Error::with_source(S3ErrorCode::IncompleteBody, source))?
                    .to_bytes()
            }
            None => bytes::Bytes::new(),
        };
        let object = self.objects.put(&input.key, &bytes);
        let e_tag = Some(ETag::Strong(object.etag.clone()));
        Ok(S3Response::new(PutObjectOutput { e_tag, ..PutObjectOutput::default() }))
    }

    async fn delete_object(&self, request: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        self.check(&request.input.bucket)?;
        self.objects.remove(&request.input.key);
        Ok(S3Response::new(DeleteObjectOutput::default()))
    }
}

/// Most entries of a page of S3.
const PAGE_ENTRIES_MAX: i32 = 1000;

/// Most bytes of an object that is put: it is held in memory.
const PUT_BYTES_MAX: i64 = 64 << 20;

/// The value of `max-keys`, and the number of entries.
fn page_size(max_keys: Option<i32>) -> S3Result<(i32, usize)> {
    let max_keys = max_keys.unwrap_or(PAGE_ENTRIES_MAX);
    match usize::try_from(max_keys.min(PAGE_ENTRIES_MAX)) {
        Ok(entries_max) => Ok((max_keys.min(PAGE_ENTRIES_MAX), entries_max)),
        Err(_) => Err(s3_error!(InvalidArgument, "max-keys must not be negative")),
    }
}

/// How keys are written in a listing.
fn encoder(encoding: Option<&EncodingType>) -> S3Result<fn(&str) -> String> {
    match encoding.map(EncodingType::as_str) {
        None => Ok(str::to_owned),
        Some(EncodingType::URL) => Ok(url_encode),
        Some(_) => Err(s3_error!(InvalidArgument, "Invalid Encoding Method specified in Request")),
    }
}

fn url_encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, LISTED).to_string()
}

/// What a listing encodes: everything but what RFC 3986 leaves unreserved, and `/`.
const LISTED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

fn contents(page: &Page, encode: fn(&str) -> String) -> Vec<s3s::dto::Object> {
    let object = |object: &Arc<Object>| s3s::dto::Object {
        key: Some(encode(&object.key)),
        size: Some(object.size as i64),
        e_tag: Some(ETag::Strong(object.etag.clone())),
        last_modified: Some(object.modified.into()),
        storage_class: Some(s3s::dto::ObjectStorageClass::from_static(s3s::dto::ObjectStorageClass::STANDARD)),
        ..s3s::dto::Object::default()
    };
    page.objects.iter().map(object).collect()
}

fn common_prefixes(page: &Page, encode: fn(&str) -> String) -> Vec<CommonPrefix> {
    page.prefixes.iter().map(|prefix| CommonPrefix { prefix: Some(encode(prefix)) }).collect()
}
