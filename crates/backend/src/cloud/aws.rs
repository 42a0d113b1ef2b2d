//! Where AWS credentials come from, in the order that AWS's own tools use.
//!
//! ```text
//!  --profile given:  profile (role > keys > SSO > credential_process) > web identity
//!                    > container > instance metadata
//!  otherwise:        environment, then the same with AWS_PROFILE or `default`
//! ```
//!
//! A role of a profile (`role_arn` with `source_profile` or `credential_source`, or with
//! `web_identity_token_file`) is assumed through STS. Credentials are renewed shortly before they
//! expire. Single sign-on uses the token that `aws sso login` leaves in `~/.aws/sso/cache`, for a
//! profile with its own start URL and for one with an `sso_session`.

use reqsign_aws_v4::{
    AssumeRoleCredentialProvider, AssumeRoleWithWebIdentityCredentialProvider, Credential, ECSCredentialProvider,
    EnvCredentialProvider, IMDSv2CredentialProvider, ProcessCredentialProvider, ProfileCredentialProvider,
    RequestSigner, SSOCredentialProvider, StaticCredentialProvider,
};
use reqsign_core::{Context, OsEnv, ProvideCredentialChain, Signer};
use reqsign_file_read_tokio::TokioFileRead;

use super::credentials::{Courier, Notes};
use super::profile;
use crate::connect::Keys;

/// How many profiles may name each other as the source of their role. Lower: long chains of roles
/// fail. Higher: profiles that name each other in a circle are followed longer.
const ROLES_MAX: usize = 4;

/// Keys that the program passes: nothing else is asked.
pub(super) fn keys(keys: &Keys) -> ProvideCredentialChain<Credential> {
    let mut provider = StaticCredentialProvider::new(&keys.access_key, &keys.secret_key);
    if let Some(token) = &keys.token {
        provider = provider.with_session_token(token);
    }
    ProvideCredentialChain::new().push(provider)
}

/// The sources of credentials. `profile`: the user's explicit choice, if any.
pub(super) fn chain(
    profile: Option<&str>,
    region: &str,
    courier: &Courier,
    notes: &Notes,
) -> ProvideCredentialChain<Credential> {
    let mut chain = ProvideCredentialChain::new();
    if profile.is_none() {
        chain = chain.push(notes.watch("environment", EnvCredentialProvider::new()));
    }
    let name = profile::name(profile);
    chain = push_profile(chain, &name, region, courier, notes, ROLES_MAX);
    let web_identity = AssumeRoleWithWebIdentityCredentialProvider::new().with_region(region.to_owned());
    chain
        .push(notes.watch("web identity", web_identity))
        .push(notes.watch("container metadata", ECSCredentialProvider::new()))
        .push(notes.watch("instance metadata", IMDSv2CredentialProvider::new()))
}

/// Appends the sources that a profile offers.
fn push_profile(
    mut chain: ProvideCredentialChain<Credential>,
    name: &str,
    region: &str,
    courier: &Courier,
    notes: &Notes,
    roles_left: usize,
) -> ProvideCredentialChain<Credential> {
    let setting = |key: &str| profile::setting(Some(name), key);
    if let Some(role) = setting("role_arn").filter(|_| roles_left > 0) {
        if let Some(token) = setting("web_identity_token_file") {
            let provider = AssumeRoleWithWebIdentityCredentialProvider::with_config(role, token.into());
            chain = chain.push(notes.watch("web identity of the profile", provider.with_region(region.to_owned())));
        } else {
            let source = match (setting("source_profile"), setting("credential_source").as_deref()) {
                (Some(source), _) => {
                    // A profile may be its own source: then its keys assume its role.
                    let roles_left = if source == name { 0 } else { roles_left - 1 };
                    push_profile(ProvideCredentialChain::new(), &source, region, courier, notes, roles_left)
                }
                (None, Some("Ec2InstanceMetadata")) => ProvideCredentialChain::new()
                    .push(notes.watch("instance metadata", IMDSv2CredentialProvider::new())),
                (None, Some("EcsContainer")) => {
                    ProvideCredentialChain::new().push(notes.watch("container metadata", ECSCredentialProvider::new()))
                }
                (None, _) => {
                    ProvideCredentialChain::new().push(notes.watch("environment", EnvCredentialProvider::new()))
                }
            };
            let context = Context::new().with_file_read(TokioFileRead).with_env(OsEnv).with_http_send(courier.clone());
            let signer = Signer::new(context, source, RequestSigner::new("sts", region));
            let mut provider = AssumeRoleCredentialProvider::new(role, signer);
            provider = provider.with_region(region.to_owned()).with_regional_sts_endpoint();
            if let Some(id) = setting("external_id") {
                provider = provider.with_external_id(id);
            }
            let session = setting("role_session_name").unwrap_or_else(|| String::from("foreread"));
            chain = chain.push(notes.watch("role of the profile", provider.with_role_session_name(session)));
        }
    }
    chain
        .push(notes.watch("profile", ProfileCredentialProvider::new().with_profile(name)))
        .push(notes.watch("SSO", single_sign_on(name)))
        .push(notes.watch("credential_process", ProcessCredentialProvider::new().with_profile(name)))
}

/// Single sign-on with the settings of `profile`.
fn single_sign_on(profile: &str) -> SSOCredentialProvider {
    let setting = |key: &str| profile::setting(Some(profile), key);
    let provider = SSOCredentialProvider::new().with_profile(profile);
    let Some(session) = setting("sso_session") else { return provider };
    let (account, role) = (setting("sso_account_id"), setting("sso_role_name"));
    match (account, role, profile::session_setting(&session, "sso_region")) {
        // The token of a session is filed under the session's name, a profile's token under its
        // start URL.
        (Some(account), Some(role), Some(region)) => {
            provider.with_account_id(account).with_role_name(role).with_region(region).with_start_url(session)
        }
        _ => provider,
    }
}
